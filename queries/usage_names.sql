-- name: ListTenantExternalIDs :many
-- What tenants are called in other systems, for events that go there.
SELECT id, external_id FROM tenants WHERE id = ANY (@ids::text[]) AND external_id IS NOT NULL AND external_id <> '';
