-- name: InsertOverride :exec
-- A second one of the same kind that holds for the limit is a unique violation.
INSERT INTO overrides (id, tenant_id, limit_id, kind, rate, burst, amount, most, factor_milli, reason, author_id, author, created_at, expires_at)
VALUES (@id, @tenant_id, @limit_id, @kind, @rate, sqlc.narg('burst'), sqlc.narg('amount'), sqlc.narg('most'), sqlc.narg('factor_milli'),
  @reason, @author_id, @author, @created_at, sqlc.narg('expires_at'));

-- name: UpdateOverride :exec
-- Another end, or the end of it. Its value never changes.
UPDATE overrides SET reason = @reason, author_id = @author_id, author = @author, expires_at = sqlc.narg('expires_at'),
  ended_at = sqlc.narg('ended_at'), ended_by = @ended_by, end_reason = @end_reason
WHERE id = @id;

-- name: GetOverride :one
SELECT sqlc.embed(o), t.name AS tenant_name FROM overrides o JOIN tenants t ON t.id = o.tenant_id WHERE o.id = @id;

-- name: ListOpenOverrides :many
-- What the tenants' records carry: all that nobody ended, also those whose time is over and that no job has ended yet.
SELECT * FROM overrides WHERE tenant_id = ANY (@tenant_ids::text[]) AND ended_at IS NULL ORDER BY tenant_id, created_at DESC, id DESC;

-- name: ListOverrides :many
-- Newest first; the cursor is the last row's (created_at, id), which never change.
SELECT sqlc.embed(o), t.name AS tenant_name, t.plan FROM overrides o JOIN tenants t ON t.id = o.tenant_id
WHERE (@tenant_id::text = '' OR o.tenant_id = @tenant_id)
  AND (@limit_id::text = '' OR o.limit_id = @limit_id)
  AND (@kind::text = '' OR o.kind = @kind)
  AND (@after_id::text = '' OR (o.created_at, o.id) < (@after_at::timestamptz, @after_id::text))
ORDER BY o.created_at DESC, o.id DESC LIMIT @max_rows;

-- name: ListLiveOverrides :many
-- The same of those that hold.
SELECT sqlc.embed(o), t.name AS tenant_name, t.plan FROM overrides o JOIN tenants t ON t.id = o.tenant_id
WHERE o.ended_at IS NULL AND (o.expires_at IS NULL OR o.expires_at > @now::timestamptz)
  AND (@tenant_id::text = '' OR o.tenant_id = @tenant_id)
  AND (@limit_id::text = '' OR o.limit_id = @limit_id)
  AND (@kind::text = '' OR o.kind = @kind)
  AND (@after_id::text = '' OR (o.created_at, o.id) < (@after_at::timestamptz, @after_id::text))
ORDER BY o.created_at DESC, o.id DESC LIMIT @max_rows;

-- name: ListEndedOverrides :many
-- The same of those that hold no more.
SELECT sqlc.embed(o), t.name AS tenant_name, t.plan FROM overrides o JOIN tenants t ON t.id = o.tenant_id
WHERE (o.ended_at IS NOT NULL OR o.expires_at <= @now::timestamptz)
  AND (@tenant_id::text = '' OR o.tenant_id = @tenant_id)
  AND (@limit_id::text = '' OR o.limit_id = @limit_id)
  AND (@kind::text = '' OR o.kind = @kind)
  AND (@after_id::text = '' OR (o.created_at, o.id) < (@after_at::timestamptz, @after_id::text))
ORDER BY o.created_at DESC, o.id DESC LIMIT @max_rows;

-- name: ListEndingOverrides :many
-- Those that hold and end soon, the soonest first; the cursor is the last row's (expires_at, id).
SELECT sqlc.embed(o), t.name AS tenant_name, t.plan FROM overrides o JOIN tenants t ON t.id = o.tenant_id
WHERE o.ended_at IS NULL AND o.expires_at > @now::timestamptz AND o.expires_at <= @until::timestamptz
  AND (@tenant_id::text = '' OR o.tenant_id = @tenant_id)
  AND (@limit_id::text = '' OR o.limit_id = @limit_id)
  AND (@kind::text = '' OR o.kind = @kind)
  AND (@after_id::text = '' OR (o.expires_at, o.id) > (@after_at::timestamptz, @after_id::text))
ORDER BY o.expires_at, o.id LIMIT @max_rows;

-- name: ListTenantsWithDueOverrides :many
-- Tenants with an override whose time is over.
SELECT DISTINCT tenant_id FROM overrides WHERE ended_at IS NULL AND expires_at <= @now ORDER BY tenant_id LIMIT @max_rows;

-- name: CountLiveOverrides :many
-- How many tenants on each plan have a value of their own, or a boost, by limit.
SELECT o.limit_id, t.plan, count(DISTINCT o.tenant_id) AS tenants FROM overrides o JOIN tenants t ON t.id = o.tenant_id
WHERE o.ended_at IS NULL AND (o.expires_at IS NULL OR o.expires_at > @now) GROUP BY o.limit_id, t.plan ORDER BY o.limit_id, t.plan;

-- name: ListOverrideFacts :many
-- How many overrides of each tenant hold, and when the next one ends; the epoch for never.
SELECT tenant_id, count(*) AS overrides, coalesce(min(expires_at), 'epoch')::timestamptz AS next_end FROM overrides
WHERE tenant_id = ANY (@tenant_ids::text[]) AND ended_at IS NULL AND (expires_at IS NULL OR expires_at > @now) GROUP BY tenant_id ORDER BY tenant_id;
