-- Lists over everything. Filters that are not set are '' and cost nothing: each execution is planned
-- for its own values. No combination of them may walk a table; docs/scale.md tells what holds that.

-- name: FindNamed :one
-- Ids of tenants and credentials that q names, at most so many of each.
SELECT ARRAY(SELECT search_tenants(@q::text, @most_tenants::integer))::text[] AS tenants,
  ARRAY(SELECT search_credentials(@q, @most_credentials::integer))::text[] AS credentials;

-- name: ListTenants :many
-- Newest first; the cursor is the last row's (created_at, id), which never change. q is for words that
-- many names have; others go through SearchTenants.
SELECT * FROM tenants
WHERE (@q::text = '' OR search_words(name) @@ search_query(@q) OR id = @q OR external_id = @q)
  AND (@plan::text = '' OR plan = @plan)
  AND (CASE WHEN @state::text = '' THEN state <> 'deleted' ELSE state = @state END)
  AND (NOT @with_overrides::boolean OR EXISTS (SELECT 1 FROM overrides o WHERE o.tenant_id = tenants.id AND o.ended_at IS NULL))
  AND (@after_id::text = '' OR (created_at, id) < (@after_at::timestamptz, @after_id::text))
ORDER BY created_at DESC, id DESC
LIMIT @max_rows;

-- name: ListTenantsByName :many
-- By name, whatever its case; the cursor is the last row's id, whose name is looked up. Deleted ones are left out.
SELECT * FROM tenants
WHERE state <> 'deleted' AND (@state::text = '' OR state = @state)
  AND (@q::text = '' OR search_words(name) @@ search_query(@q) OR id = @q OR external_id = @q)
  AND (@plan::text = '' OR plan = @plan)
  AND (NOT @with_overrides::boolean OR EXISTS (SELECT 1 FROM overrides o WHERE o.tenant_id = tenants.id AND o.ended_at IS NULL))
  AND (@after_id::text = '' OR (lower(name), id) > (SELECT lower(p.name), p.id FROM tenants p WHERE p.id = @after_id))
ORDER BY lower(name), id
LIMIT @max_rows;

-- name: SearchTenants :many
-- As ListTenants and ListTenantsByName, of few.
WITH found AS MATERIALIZED (SELECT * FROM tenants WHERE id = ANY (@ids::text[]))
SELECT * FROM found
WHERE (@plan::text = '' OR plan = @plan)
  AND (CASE WHEN @state::text = '' THEN state <> 'deleted' ELSE state = @state END) AND (NOT @by_name::boolean OR state <> 'deleted')
  AND (NOT @with_overrides::boolean OR EXISTS (SELECT 1 FROM overrides o WHERE o.tenant_id = found.id AND o.ended_at IS NULL))
  AND (@after_id::text = '' OR CASE WHEN @by_name THEN (lower(name), id) > (SELECT lower(p.name), p.id FROM tenants p WHERE p.id = @after_id)
    ELSE (created_at, id) < (@after_at::timestamptz, @after_id::text) END)
ORDER BY CASE WHEN @by_name THEN lower(name) END, CASE WHEN @by_name THEN id END, created_at DESC, id DESC
LIMIT @max_rows;

-- name: ListKeys :many
-- Newest first; the cursor is the last row's (created_at, kid), which never change. q is for words that
-- many names have; others go through SearchKeys.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE (@q::text = '' OR v.kid = @q OR search_words(c.name) @@ search_query(@q) OR search_words(t.name) @@ search_query(@q))
  AND (@tenant_id::text = '' OR v.tenant_id = @tenant_id)
  AND (@environment::text = '' OR c.environment = @environment)
  AND (@state::text = '' OR v.state = @state)
  AND (@after_kid::text = '' OR (v.created_at, v.kid) < (@after_at::timestamptz, @after_kid::text))
ORDER BY v.created_at DESC, v.kid DESC
LIMIT @max_rows;

-- name: SearchKeys :many
-- As ListKeys, of few tenants and credentials, or the one with a kid.
WITH found AS MATERIALIZED (
  SELECT v.kid, v.created_at FROM key_versions v
  WHERE (v.kid = @kid::text OR v.credential_id = ANY (@credentials::text[]) OR v.tenant_id = ANY (@tenants::text[]))
    AND (@tenant_id::text = '' OR v.tenant_id = @tenant_id)
    AND (@environment::text = '' OR EXISTS (SELECT 1 FROM credentials e WHERE e.id = v.credential_id AND e.environment = @environment))
    AND (@state::text = '' OR v.state = @state)
    AND (@after_kid::text = '' OR (v.created_at, v.kid) < (@after_at::timestamptz, @after_kid::text))
), newest AS MATERIALIZED (
  SELECT f.kid FROM found f ORDER BY f.created_at DESC, f.kid DESC LIMIT @max_rows
)
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM newest n JOIN key_versions v ON v.kid = n.kid JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
ORDER BY v.created_at DESC, v.kid DESC;

-- name: CountKeys :one
-- Exact up to 10 000, the planner's estimate above.
SELECT (CASE WHEN n <= 10000 THEN n ELSE greatest(10001, estimated_rows('SELECT 1 FROM key_versions WHERE state IN (''active'', ''retiring'', ''suspended'')')) END)::bigint AS n
FROM (SELECT count(*) AS n FROM (SELECT 1 FROM key_versions WHERE state IN ('active', 'retiring', 'suspended') LIMIT 10001) few) counted;

-- name: ListAudit :many
-- Newest first; the cursor is the last row's seq, 0 for the first page.
SELECT * FROM audit_events
WHERE (@before_seq::bigint = 0 OR seq < @before_seq)
  AND (@action::text = '' OR CASE WHEN strpos(@action, '.') > 0 THEN action = @action ELSE split_part(action, '.', 1) = @action END)
  AND (@object::text = '' OR object = @object)
  AND (@object_id::text = '' OR object_id = @object_id)
  AND (@tenant_id::text = '' OR tenant_id = @tenant_id)
ORDER BY seq DESC LIMIT @max_rows;

-- name: FindActors :many
-- Ids of operators and tenants' members that q names, as they are called today, and of the console
-- itself, which has none.
SELECT id::text AS id FROM (
  SELECT @q::text AS id
  UNION SELECT o.id FROM operators o WHERE strpos(lower(o.name), lower(@q)) > 0 OR strpos(lower(o.email), lower(@q)) > 0
  UNION SELECT search_members(@q, @max_rows::integer)
  UNION SELECT '' WHERE strpos('headgate', lower(@q)) > 0
) actors LIMIT @max_rows::integer;

-- name: ListAuditBy :many
-- As ListAudit, of some actors: the newest of each by the index, and of those the newest.
SELECT * FROM audit_events
WHERE seq IN (
  SELECT x.seq FROM unnest(@actors::text[]) AS a(id) CROSS JOIN LATERAL (
    SELECT e.seq FROM audit_events e
    WHERE e.actor_id = a.id AND (@before_seq::bigint = 0 OR e.seq < @before_seq)
      AND (@action::text = '' OR CASE WHEN strpos(@action, '.') > 0 THEN e.action = @action ELSE split_part(e.action, '.', 1) = @action END)
      AND (@object::text = '' OR e.object = @object)
      AND (@object_id::text = '' OR e.object_id = @object_id)
      AND (@tenant_id::text = '' OR e.tenant_id = @tenant_id)
    ORDER BY e.seq DESC LIMIT @max_rows) x
)
ORDER BY seq DESC LIMIT @max_rows;

-- name: ListTenantsByID :many
-- What the relay has to send. Rows come in any order.
SELECT * FROM tenants WHERE id = ANY (@ids::text[]);

-- name: ListKeysByID :many
-- What the relay has to send. Rows come in any order.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.kid = ANY (@kids::text[]);
