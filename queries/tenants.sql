-- name: InsertTenant :exec
-- A taken external_id is a unique violation.
INSERT INTO tenants (id, name, external_id, plan, time_zone, state, reason, seq, created_at, updated_at)
VALUES (@id, @name, sqlc.narg('external_id'), @plan, @time_zone, @state, @reason, @seq, @created_at, @updated_at);

-- name: GetTenant :one
SELECT * FROM tenants WHERE id = @id;

-- name: LockTenant :one
-- For changes of the tenant itself.
SELECT * FROM tenants WHERE id = @id FOR UPDATE;

-- name: ShareTenant :one
-- For changes of what belongs to it: the tenant keeps its state meanwhile.
SELECT * FROM tenants WHERE id = @id FOR SHARE;

-- name: UpdateTenant :exec
UPDATE tenants SET name = @name, external_id = sqlc.narg('external_id'), plan = @plan, time_zone = @time_zone,
  state = @state, reason = @reason, seq = @seq, updated_at = @updated_at
WHERE id = @id;

-- name: ListTenants :many
-- Newest first; the cursor is the last row's (created_at, id), which never change.
SELECT * FROM tenants
WHERE (@q::text = '' OR strpos(lower(name), lower(@q)) > 0 OR id = @q OR external_id = @q)
  AND (@plan::text = '' OR plan = @plan)
  AND (CASE WHEN @state::text = '' THEN state <> 'deleted' ELSE state = @state END)
  AND (@after_id::text = '' OR (created_at, id) < (@after_at::timestamptz, @after_id::text))
ORDER BY created_at DESC, id DESC
LIMIT @max_rows;

-- name: CountTenants :one
SELECT count(*) FROM tenants WHERE state <> 'deleted';

-- name: ListPlansInUse :many
SELECT DISTINCT plan FROM tenants WHERE state <> 'deleted' ORDER BY plan;

-- name: ListTenantNames :many
SELECT id, name FROM tenants WHERE id = ANY (@ids::text[]);

-- name: ListTenantsForDirectory :many
-- A full refill of the directory, in steps. Tenants that were deleted long ago are left out.
SELECT * FROM tenants WHERE id > @after_id AND (state <> 'deleted' OR updated_at > @ended_since) ORDER BY id LIMIT @max_rows;
