-- +goose Up
-- Bulk jobs suspend and resume tenants, too.
ALTER TABLE bulk_jobs DROP CONSTRAINT bulk_jobs_kind_check;
ALTER TABLE bulk_jobs ADD CONSTRAINT bulk_jobs_kind_check
  CHECK (kind IN ('import-tenants', 'import-keys', 'revoke-unused', 'set-expiry', 'change-plan', 'suspend-tenants', 'resume-tenants'));

-- +goose Down
DELETE FROM bulk_marks WHERE job IN (SELECT num FROM bulk_jobs WHERE kind IN ('suspend-tenants', 'resume-tenants'));
DELETE FROM bulk_rows WHERE job IN (SELECT num FROM bulk_jobs WHERE kind IN ('suspend-tenants', 'resume-tenants'));
DELETE FROM bulk_jobs WHERE kind IN ('suspend-tenants', 'resume-tenants');
ALTER TABLE bulk_jobs DROP CONSTRAINT bulk_jobs_kind_check;
ALTER TABLE bulk_jobs ADD CONSTRAINT bulk_jobs_kind_check CHECK (kind IN ('import-tenants', 'import-keys', 'revoke-unused', 'set-expiry', 'change-plan'));
