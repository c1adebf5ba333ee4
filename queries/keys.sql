-- name: InsertCredential :exec
INSERT INTO credentials (id, tenant_id, name, environment, scopes, contact, expires_at, created_at)
VALUES (@id, @tenant_id, @name, @environment, @scopes, @contact, sqlc.narg('expires_at'), @created_at);

-- name: GetCredential :one
SELECT * FROM credentials WHERE id = @id;

-- name: LockCredential :one
-- The first lock of every change of its versions and rotations.
SELECT * FROM credentials WHERE id = @id FOR UPDATE;

-- name: ListCredentials :many
SELECT * FROM credentials WHERE tenant_id = @tenant_id ORDER BY created_at DESC, id DESC LIMIT 1000;

-- name: InsertKeyVersion :exec
INSERT INTO key_versions (kid, credential_id, tenant_id, digest, state, seq, created_at, activated_at, not_after, idle_since)
VALUES (@kid, @credential_id, @tenant_id, @digest, @state, @seq, @created_at, @activated_at, sqlc.narg('not_after'), @created_at);

-- name: UpdateKeyVersion :exec
UPDATE key_versions SET state = @state, resume_state = sqlc.narg('resume_state'), seq = @seq, retiring_at = sqlc.narg('retiring_at'),
  not_after = sqlc.narg('not_after'), revoked_at = sqlc.narg('revoked_at'), revoke_reason = sqlc.narg('revoke_reason'), ended_at = sqlc.narg('ended_at'),
  brownout_network = sqlc.narg('brownout_network'), brownout_from = sqlc.narg('brownout_from'), brownout_until = sqlc.narg('brownout_until'), leaked = @leaked
WHERE kid = @kid;

-- name: GetKeyVersion :one
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.kid = @kid;

-- name: ListKeyNames :many
SELECT v.kid, c.name AS credential, t.name AS tenant
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.kid = ANY (@kids::text[]);

-- name: ListKeyVersions :many
-- Of one credential, or of one tenant; newest first.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.tenant_id = @tenant_id AND (@credential_id::text = '' OR v.credential_id = @credential_id)
ORDER BY v.created_at DESC, v.kid DESC;

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

-- name: ListKeysNeverUsed :many
-- Keys that work and were never used, the newest first.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.state IN ('active', 'retiring', 'suspended') AND NOT v.used
  AND (@tenant_id::text = '' OR v.tenant_id = @tenant_id) AND (@environment::text = '' OR c.environment = @environment) AND (@state::text = '' OR v.state = @state)
  AND (@q::text = '' OR v.kid = @q OR starts_with(lower(c.name), lower(@q)) OR starts_with(lower(t.name), lower(@q)))
  AND (@after_kid::text = '' OR (v.created_at, v.kid) < (@after_at::timestamptz, @after_kid::text))
ORDER BY v.created_at DESC, v.kid DESC LIMIT @max_rows;

-- name: ListKeysExpiring :many
-- Keys that work and end by themselves before a time, the next first. Those that retire are their rotation's business.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.state IN ('active', 'suspended') AND v.not_after IS NOT NULL AND v.not_after < @until::timestamptz
  AND (@tenant_id::text = '' OR v.tenant_id = @tenant_id) AND (@environment::text = '' OR c.environment = @environment) AND (@state::text = '' OR v.state = @state)
  AND (@q::text = '' OR v.kid = @q OR starts_with(lower(c.name), lower(@q)) OR starts_with(lower(t.name), lower(@q)))
  AND (@after_kid::text = '' OR (v.not_after, v.kid) > (@after_at::timestamptz, @after_kid::text))
ORDER BY v.not_after, v.kid LIMIT @max_rows;

-- name: ListKeysLeaked :many
-- Keys that were found where they should not be, the newest first.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.leaked
  AND (@tenant_id::text = '' OR v.tenant_id = @tenant_id) AND (@environment::text = '' OR c.environment = @environment) AND (@state::text = '' OR v.state = @state)
  AND (@q::text = '' OR v.kid = @q OR starts_with(lower(c.name), lower(@q)) OR starts_with(lower(t.name), lower(@q)))
  AND (@after_kid::text = '' OR (v.created_at, v.kid) < (@after_at::timestamptz, @after_kid::text))
ORDER BY v.created_at DESC, v.kid DESC LIMIT @max_rows;

-- name: TouchKeys :exec
-- Notes that keys were used; rarely, as each note moves the row in its indexes.
UPDATE key_versions v SET used = true, idle_since = u.at
FROM (SELECT unnest(@kids::text[]) AS kid, unnest(@ats::timestamptz[]) AS at) u
WHERE v.kid = u.kid AND (NOT v.used OR v.idle_since < u.at - interval '1 day');

-- name: MarkKeyLeaked :exec
UPDATE key_versions SET leaked = true WHERE kid = @kid AND NOT leaked;

-- name: ListKeysIdle :many
-- Keys that work and were not used since a time, the longest idle first. idle_since may be a day behind the truth, so key_use is asked, too.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.state IN ('active', 'retiring', 'suspended') AND v.idle_since < @idle_before::timestamptz
  AND NOT EXISTS (SELECT 1 FROM key_use u WHERE u.kid = v.kid AND u.last_used_at >= @idle_before::timestamptz)
  AND (@tenant_id::text = '' OR v.tenant_id = @tenant_id) AND (@environment::text = '' OR c.environment = @environment) AND (@state::text = '' OR v.state = @state)
  AND (@q::text = '' OR v.kid = @q OR starts_with(lower(c.name), lower(@q)) OR starts_with(lower(t.name), lower(@q)))
  AND (@after_kid::text = '' OR (v.idle_since, v.kid) > (@after_at::timestamptz, @after_kid::text))
ORDER BY v.idle_since, v.kid LIMIT @max_rows;

-- name: ListKeysRetiringUsed :many
-- Keys that retire and were used since, the next end first.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
JOIN key_use u ON u.kid = v.kid
WHERE v.state = 'retiring' AND u.last_used_at >= v.retiring_at
  AND (@tenant_id::text = '' OR v.tenant_id = @tenant_id) AND (@environment::text = '' OR c.environment = @environment) AND (@state::text = '' OR v.state = @state)
  AND (@q::text = '' OR v.kid = @q OR starts_with(lower(c.name), lower(@q)) OR starts_with(lower(t.name), lower(@q)))
  AND (@after_kid::text = '' OR (v.not_after, v.kid) > (@after_at::timestamptz, @after_kid::text))
ORDER BY v.not_after, v.kid LIMIT @max_rows;
