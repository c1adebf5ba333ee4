-- Lists over everything. Filters that are not set are '' and cost nothing: each execution is planned
-- for its own values. No combination of them may walk a table; docs/scale.md tells what holds that.

-- name: ListKeys :many
-- Newest first; the cursor is the last row's (created_at, kid), which never change.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE (@tenant_id::text = '' OR v.tenant_id = @tenant_id)
  AND (@environment::text = '' OR c.environment = @environment)
  AND (@state::text = '' OR v.state = @state)
  AND (@after_kid::text = '' OR (v.created_at, v.kid) < (@after_at::timestamptz, @after_kid::text))
ORDER BY v.created_at DESC, v.kid DESC
LIMIT @max_rows;

-- name: SearchKeys :many
-- As ListKeys, by kid or by words of the names of credential and tenant: each way in finds its own
-- newest, so that each can go by an index.
WITH by_credential AS (
  SELECT v.kid FROM credentials c JOIN key_versions v ON v.credential_id = c.id
  WHERE search_words(c.name) @@ search_query(@q)
    AND (@tenant_id::text = '' OR v.tenant_id = @tenant_id) AND (@environment::text = '' OR c.environment = @environment)
    AND (@state::text = '' OR v.state = @state)
    AND (@after_kid::text = '' OR (v.created_at, v.kid) < (@after_at::timestamptz, @after_kid::text))
  ORDER BY v.created_at DESC, v.kid DESC LIMIT @max_rows
), by_tenant AS (
  SELECT v.kid FROM tenants t JOIN key_versions v ON v.tenant_id = t.id JOIN credentials c ON c.id = v.credential_id
  WHERE search_words(t.name) @@ search_query(@q)
    AND (@tenant_id::text = '' OR v.tenant_id = @tenant_id) AND (@environment::text = '' OR c.environment = @environment)
    AND (@state::text = '' OR v.state = @state)
    AND (@after_kid::text = '' OR (v.created_at, v.kid) < (@after_at::timestamptz, @after_kid::text))
  ORDER BY v.created_at DESC, v.kid DESC LIMIT @max_rows
), found AS (
  SELECT kid FROM by_credential UNION SELECT kid FROM by_tenant
  UNION SELECT v.kid FROM key_versions v JOIN credentials c ON c.id = v.credential_id
  WHERE v.kid = @q::text AND (@tenant_id::text = '' OR v.tenant_id = @tenant_id) AND (@environment::text = '' OR c.environment = @environment)
    AND (@state::text = '' OR v.state = @state)
    AND (@after_kid::text = '' OR (v.created_at, v.kid) < (@after_at::timestamptz, @after_kid::text))
)
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM found f JOIN key_versions v ON v.kid = f.kid JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
ORDER BY v.created_at DESC, v.kid DESC
LIMIT @max_rows;

-- name: CountKeys :one
-- Exact up to 10 000, the planner's estimate above.
SELECT (CASE WHEN n <= 10000 THEN n ELSE greatest(10001, estimated_rows('SELECT 1 FROM key_versions WHERE state IN (''active'', ''retiring'', ''suspended'')')) END)::bigint AS n
FROM (SELECT count(*) AS n FROM (SELECT 1 FROM key_versions WHERE state IN ('active', 'retiring', 'suspended') LIMIT 10001) few) counted;

-- name: ListAudit :many
-- Newest first; the cursor is the last row's seq, 0 for the first page.
SELECT * FROM audit_events
WHERE (@before_seq::bigint = 0 OR seq < @before_seq)
  AND (@actor::text = '' OR actor_id = @actor OR search_words(actor) @@ search_query(@actor))
  AND (@action::text = '' OR CASE WHEN strpos(@action, '.') > 0 THEN action = @action ELSE split_part(action, '.', 1) = @action END)
  AND (@object::text = '' OR object = @object)
  AND (@object_id::text = '' OR object_id = @object_id)
  AND (@tenant_id::text = '' OR tenant_id = @tenant_id)
ORDER BY seq DESC LIMIT @max_rows;

-- name: ListTenantsByID :many
-- What the relay has to send. Rows come in any order.
SELECT * FROM tenants WHERE id = ANY (@ids::text[]);

-- name: ListKeysByID :many
-- What the relay has to send. Rows come in any order.
SELECT sqlc.embed(v), c.name AS credential_name, c.environment, c.scopes, t.name AS tenant_name
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.kid = ANY (@kids::text[]);
