-- +goose Up
-- Unlocking a subject without a tenant has gateways forget its refusals.

ALTER TABLE outbox DROP CONSTRAINT outbox_kind_check;
ALTER TABLE outbox ADD CONSTRAINT outbox_kind_check CHECK (kind IN ('policy', 'key', 'tenant', 'canary', 'refusals'));

-- +goose Down
DELETE FROM outbox WHERE kind = 'refusals';
ALTER TABLE outbox DROP CONSTRAINT outbox_kind_check;
ALTER TABLE outbox ADD CONSTRAINT outbox_kind_check CHECK (kind IN ('policy', 'key', 'tenant', 'canary'));
