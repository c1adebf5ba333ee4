-- name: InsertLeak :exec
-- A second open case of a key is a unique violation.
INSERT INTO leak_cases (id, kid, tenant_id, state, source, kind, url, note, done, found_at, closed_at, closed_by)
VALUES (@id, @kid, @tenant_id, @state, @source, @kind, @url, @note, @done, @found_at, sqlc.narg('closed_at'), @closed_by);

-- name: UpdateLeak :exec
UPDATE leak_cases SET state = @state, url = @url, note = @note, done = @done, closed_at = sqlc.narg('closed_at'), closed_by = @closed_by, reports = @reports
WHERE id = @id;

-- name: LockLeak :one
SELECT sqlc.embed(l), t.name AS tenant_name FROM leak_cases l JOIN tenants t ON t.id = l.tenant_id WHERE l.id = @id FOR UPDATE OF l;

-- name: LockNewestLeak :one
-- The newest case of a key, an open one before all others.
SELECT sqlc.embed(l), t.name AS tenant_name FROM leak_cases l JOIN tenants t ON t.id = l.tenant_id
WHERE l.kid = @kid ORDER BY (l.state = 'open') DESC, l.found_at DESC, l.id DESC LIMIT 1 FOR UPDATE OF l;

-- name: ListLeaks :many
-- Newest first; the cursor is the last row's (found_at, id), which never change.
SELECT sqlc.embed(l), t.name AS tenant_name FROM leak_cases l JOIN tenants t ON t.id = l.tenant_id
WHERE (@state::text = '' OR l.state = @state) AND (@kid::text = '' OR l.kid = @kid)
  AND (@after_id::text = '' OR (l.found_at, l.id) < (@after_at::timestamptz, @after_id::text))
ORDER BY l.found_at DESC, l.id DESC LIMIT @max_rows;

-- name: CountOpenLeaks :one
SELECT count(*) FROM leak_cases WHERE state = 'open';
