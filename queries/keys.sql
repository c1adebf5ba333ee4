-- name: InsertCredential :exec
INSERT INTO credentials (id, tenant_id, name, environment, scopes, expires_at, created_at)
VALUES (@id, @tenant_id, @name, @environment, @scopes, sqlc.narg('expires_at'), @created_at);

-- name: GetCredential :one
SELECT * FROM credentials WHERE id = @id;

-- name: LockCredential :one
-- The first lock of every change of its versions and rotations.
SELECT * FROM credentials WHERE id = @id FOR UPDATE;

-- name: ListCredentials :many
SELECT * FROM credentials WHERE tenant_id = @tenant_id ORDER BY created_at DESC, id DESC LIMIT 1000;

-- name: InsertKeyVersion :exec
INSERT INTO key_versions (kid, credential_id, tenant_id, digest, state, seq, created_at, activated_at, not_after)
VALUES (@kid, @credential_id, @tenant_id, @digest, @state, @seq, @created_at, @activated_at, sqlc.narg('not_after'));

-- name: UpdateKeyVersion :exec
UPDATE key_versions SET state = @state, resume_state = sqlc.narg('resume_state'), seq = @seq, retiring_at = sqlc.narg('retiring_at'),
  not_after = sqlc.narg('not_after'), revoked_at = sqlc.narg('revoked_at'), revoke_reason = sqlc.narg('revoke_reason'), ended_at = sqlc.narg('ended_at')
WHERE kid = @kid;

-- name: GetKeyVersion :one
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.kid = @kid;

-- name: ListKeyVersions :many
-- Of one credential, or of one tenant; newest first.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.tenant_id = @tenant_id AND (@credential_id::text = '' OR v.credential_id = @credential_id)
ORDER BY v.created_at DESC, v.kid DESC;

-- name: ListKeys :many
-- Newest first; the cursor is the last row's (created_at, kid), which never change.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE (@q::text = '' OR v.kid = @q OR strpos(lower(c.name), lower(@q)) > 0 OR strpos(lower(t.name), lower(@q)) > 0)
  AND (@tenant_id::text = '' OR v.tenant_id = @tenant_id)
  AND (@environment::text = '' OR c.environment = @environment)
  AND (@state::text = '' OR v.state = @state)
  AND (@after_kid::text = '' OR (v.created_at, v.kid) < (@after_at::timestamptz, @after_kid::text))
ORDER BY v.created_at DESC, v.kid DESC
LIMIT @max_rows;

-- name: CountKeys :one
SELECT count(*) FROM key_versions WHERE state IN ('active', 'retiring', 'suspended');

-- name: ListDueCredentials :many
-- Credentials with a version or a rotation whose time has run out.
SELECT DISTINCT credential_id FROM (
  SELECT v.credential_id FROM key_versions v
  WHERE v.state IN ('active', 'retiring', 'suspended') AND v.not_after <= @now
  UNION ALL
  SELECT r.credential_id FROM rotations r WHERE r.state = 'overlap' AND r.ends_at <= @now
) due ORDER BY credential_id LIMIT @max_rows;

-- name: ListKeysForDirectory :many
-- A full refill of the directory, in steps. Versions that ended long ago are left out.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.kid > @after_kid AND (v.ended_at IS NULL OR v.ended_at > @ended_since::timestamptz)
ORDER BY v.kid LIMIT @max_rows;

-- name: ListLiveCredentials :many
-- Credentials of a tenant with a version that works or could be resumed.
SELECT DISTINCT credential_id FROM key_versions
WHERE tenant_id = @tenant_id AND state IN ('active', 'retiring', 'suspended') ORDER BY credential_id;
