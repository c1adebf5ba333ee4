-- name: InsertRotation :exec
-- A second open rotation of a credential is a unique violation.
INSERT INTO rotations (id, credential_id, tenant_id, old_kid, new_kid, state, reason, overlap_seconds, old_not_after, started_at, ends_at, ended_at, end_reason, extensions)
VALUES (@id, @credential_id, @tenant_id, @old_kid, @new_kid, @state, @reason, @overlap_seconds, sqlc.narg('old_not_after'), @started_at, @ends_at, sqlc.narg('ended_at'), @end_reason, @extensions);

-- name: UpdateRotation :exec
UPDATE rotations SET state = @state, ends_at = @ends_at, ended_at = sqlc.narg('ended_at'), end_reason = @end_reason, extensions = @extensions
WHERE id = @id;

-- name: GetRotation :one
SELECT sqlc.embed(r), c.name AS credential_name, t.name AS tenant_name
FROM rotations r JOIN credentials c ON c.id = r.credential_id JOIN tenants t ON t.id = r.tenant_id
WHERE r.id = @id;

-- name: GetOpenRotation :one
SELECT sqlc.embed(r), c.name AS credential_name, t.name AS tenant_name
FROM rotations r JOIN credentials c ON c.id = r.credential_id JOIN tenants t ON t.id = r.tenant_id
WHERE r.credential_id = @credential_id AND r.state = 'overlap';

-- name: ListRotations :many
-- Newest first, at most max_rows.
SELECT sqlc.embed(r), c.name AS credential_name, t.name AS tenant_name
FROM rotations r JOIN credentials c ON c.id = r.credential_id JOIN tenants t ON t.id = r.tenant_id
WHERE (NOT @open::boolean OR r.state = 'overlap')
ORDER BY r.started_at DESC, r.id DESC LIMIT @max_rows;
