-- name: InsertTenant :exec
-- A taken external_id is a unique violation.
INSERT INTO tenants (id, name, external_id, plan, time_zone, quota_anchor, contacts, state, reason, seq, created_at, updated_at)
VALUES (@id, @name, sqlc.narg('external_id'), @plan, @time_zone, @quota_anchor, @contacts, @state, @reason, @seq, @created_at, @updated_at);

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
  quota_anchor = @quota_anchor, contacts = @contacts, state = @state, reason = @reason, seq = @seq, updated_at = @updated_at
WHERE id = @id;

-- name: CountTenants :one
-- Exact up to 10 000, the planner's estimate above.
SELECT (CASE WHEN n <= 10000 THEN n ELSE greatest(10001, estimated_rows('SELECT 1 FROM tenants WHERE state <> ''deleted''')) END)::bigint AS n
FROM (SELECT count(*) AS n FROM (SELECT 1 FROM tenants WHERE state <> 'deleted' LIMIT 10001) few) counted;

-- name: ListPlansInUse :many
-- From one plan to the next by the index: as many steps as there are plans, however many tenants.
WITH RECURSIVE step AS (
  (SELECT t.plan FROM tenants t WHERE t.state <> 'deleted' ORDER BY t.plan LIMIT 1)
  UNION ALL
  SELECT (SELECT t.plan FROM tenants t WHERE t.state <> 'deleted' AND t.plan > step.plan ORDER BY t.plan LIMIT 1)
  FROM step WHERE step.plan IS NOT NULL
)
SELECT step.plan::text AS plan FROM step WHERE step.plan IS NOT NULL ORDER BY 1;

-- name: ListTenantNames :many
SELECT id, name FROM tenants WHERE id = ANY (@ids::text[]);

-- name: ListTenantsForDirectory :many
-- A full refill of the directory, in steps. Tenants that were deleted long ago are left out.
SELECT * FROM tenants WHERE id > @after_id AND (state <> 'deleted' OR updated_at > @ended_since) ORDER BY id LIMIT @max_rows;

-- name: ListTenantFacts :many
-- What lists tell of tenants besides their rows; the epoch is never.
SELECT t.id, coalesce(k.active, 0)::bigint AS active, coalesce(k.retiring, 0)::bigint AS retiring,
  coalesce(use.last_used_at, 'epoch')::timestamptz AS last_seen,
  coalesce(day.requests, 0)::bigint AS requests, coalesce(day.refused, 0)::bigint AS refused
FROM tenants t LEFT JOIN LATERAL (
  -- Both at once, by the tenant's index: an index of retiring versions alone would be read whole for each tenant.
  SELECT count(*) FILTER (WHERE v.state = 'active' OR v.resume_state = 'active') AS active,
    count(*) FILTER (WHERE v.state = 'retiring' OR v.resume_state = 'retiring') AS retiring
  FROM key_versions v WHERE v.tenant_id = t.id
) k ON true LEFT JOIN LATERAL (
  SELECT max(u.last_used_at) AS last_used_at FROM key_use u WHERE u.tenant_id = t.id
) use ON true LEFT JOIN LATERAL (
  SELECT sum(h.requests) AS requests, sum(h.limited + h.refused) AS refused
  FROM key_use u JOIN key_use_hours h ON h.kid = u.kid AND h.hour > @since::timestamptz WHERE u.tenant_id = t.id
) day ON true
WHERE t.id = ANY (@ids::text[]) ORDER BY t.id;
