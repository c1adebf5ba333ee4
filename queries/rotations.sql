-- name: InsertRotation :exec
-- A second open rotation of a credential is a unique violation.
INSERT INTO rotations (id, credential_id, tenant_id, old_kid, new_kid, state, reason, overlap_seconds, old_not_after, started_at, ends_at, ended_at, end_reason, extensions)
VALUES (@id, @credential_id, @tenant_id, @old_kid, @new_kid, @state, @reason, @overlap_seconds, sqlc.narg('old_not_after'), @started_at, @ends_at, sqlc.narg('ended_at'), @end_reason, @extensions);

-- name: UpdateRotation :exec
UPDATE rotations SET state = @state, ends_at = @ends_at, ended_at = sqlc.narg('ended_at'), end_reason = @end_reason, extensions = @extensions,
  member_extensions = @member_extensions
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

-- name: ListRotationsOver :many
-- Rotations that are over, the last end first.
SELECT sqlc.embed(r), c.name AS credential_name, t.name AS tenant_name
FROM rotations r JOIN credentials c ON c.id = r.credential_id JOIN tenants t ON t.id = r.tenant_id
WHERE r.state <> 'overlap' AND (@state::text = '' OR r.state = @state) AND (@tenant_id::text = '' OR r.tenant_id = @tenant_id)
  AND (@after_id::text = '' OR (r.ended_at, r.id) < (@after_at::timestamptz, @after_id::text))
ORDER BY r.ended_at DESC, r.id DESC LIMIT @max_rows;

-- name: InsertBrownout :exec
INSERT INTO brownouts (id, rotation_id, kid, tenant_id, network, from_at, until_at, author_id, author, reason)
VALUES (@id, @rotation_id, @kid, @tenant_id, @network, @from_at, @until_at, @author_id, @author, @reason);

-- name: StopBrownouts :exec
-- Those of a rotation that still run.
UPDATE brownouts SET stopped_at = greatest(@now, from_at) WHERE rotation_id = @rotation_id AND stopped_at IS NULL AND until_at > @now;

-- name: ListBrownouts :many
SELECT * FROM brownouts WHERE rotation_id = @rotation_id ORDER BY from_at DESC, id DESC LIMIT 100;

-- name: ListRotationsAtRisk :many
-- Rotations that end soon although the old version was used of late, the next end first. They are overdue unless a closer look says that
-- the old version is silent for long enough.
SELECT sqlc.embed(r), c.name AS credential_name, t.name AS tenant_name, u.last_used_at AS old_last
FROM rotations r JOIN credentials c ON c.id = r.credential_id JOIN tenants t ON t.id = r.tenant_id LEFT JOIN key_use u ON u.kid = r.old_kid
WHERE r.state = 'overlap' AND r.ends_at < @soon::timestamptz AND r.ends_at > r.started_at + interval '1 day'
  AND u.last_used_at >= r.started_at AND u.last_used_at > @longest_ago::timestamptz
  AND (u.last_used_at > @least_ago::timestamptz OR u.last_used_at + (r.ends_at - r.started_at) / 4 > @now::timestamptz)
  AND (@tenant_id::text = '' OR r.tenant_id = @tenant_id)
  AND (@after_id::text = '' OR (r.ends_at, r.id) > (@after_at::timestamptz, @after_id::text))
ORDER BY r.ends_at, r.id LIMIT @max_rows;

-- name: ListRotationsRunning :many
-- All other rotations that run, the next end first.
SELECT sqlc.embed(r), c.name AS credential_name, t.name AS tenant_name, u.last_used_at AS old_last
FROM rotations r JOIN credentials c ON c.id = r.credential_id JOIN tenants t ON t.id = r.tenant_id LEFT JOIN key_use u ON u.kid = r.old_kid
WHERE r.state = 'overlap' AND NOT (r.ends_at < @soon::timestamptz AND r.ends_at > r.started_at + interval '1 day'
  AND coalesce(u.last_used_at >= r.started_at AND u.last_used_at > @longest_ago::timestamptz
  AND (u.last_used_at > @least_ago::timestamptz OR u.last_used_at + (r.ends_at - r.started_at) / 4 > @now::timestamptz), false))
  AND (@tenant_id::text = '' OR r.tenant_id = @tenant_id)
  AND (@after_id::text = '' OR (r.ends_at, r.id) > (@after_at::timestamptz, @after_id::text))
ORDER BY r.ends_at, r.id LIMIT @max_rows;

-- name: ListRotationGaps :many
-- Per rotation the longest silence, in seconds, that a source of its old version kept before it came again: of the last week's sources that
-- were not seen with the new version since.
SELECT r.id, max(o.longest_gap)::bigint AS longest_gap
FROM rotations r JOIN key_sources o ON o.kid = r.old_kid
WHERE r.id = ANY (@ids::text[]) AND o.last_seen >= @since
  AND NOT EXISTS (SELECT 1 FROM key_sources n WHERE n.kid = r.new_kid AND n.network = o.network AND n.agent = o.agent AND n.last_seen >= o.last_seen)
GROUP BY r.id ORDER BY r.id;

-- name: ListOpenRotationsOf :many
-- Of some credentials, each of which has one at most.
SELECT sqlc.embed(r), c.name AS credential_name, t.name AS tenant_name
FROM rotations r JOIN credentials c ON c.id = r.credential_id JOIN tenants t ON t.id = r.tenant_id
WHERE r.credential_id = ANY (@credential_ids::text[]) AND r.state = 'overlap' ORDER BY r.id;
