-- name: LockHead :one
-- Publishing: one at a time.
SELECT number FROM policy_head WHERE one FOR UPDATE;

-- name: ShareHead :one
-- For changes that depend on the plans in force.
SELECT number FROM policy_head WHERE one FOR SHARE;

-- name: GetHead :one
SELECT v.* FROM policy_head h JOIN policy_versions v ON v.number = h.number WHERE h.one;

-- name: GetHeadNumber :one
SELECT v.number, v.digest FROM policy_head h JOIN policy_versions v ON v.number = h.number WHERE h.one;

-- name: SetHead :exec
UPDATE policy_head SET number = @number, updated_at = @now WHERE one;

-- name: InsertVersion :exec
INSERT INTO policy_versions (number, digest, parent, body, changes, note, author_id, author, kind, rollback_of, created_at, tests, proof)
VALUES (@number, @digest, @parent, @body, @changes, @note, @author_id, @author, @kind, sqlc.narg('rollback_of'), @created_at, @tests, @proof);

-- name: GetVersion :one
SELECT * FROM policy_versions WHERE number = @number;

-- name: ListVersions :many
-- Newest first, without bodies, tests and their results; before 0 means from the newest.
SELECT number, digest, parent, changes, note, author_id, author, kind, rollback_of, created_at, (proof - 'tests')::jsonb AS proof
FROM policy_versions WHERE (@before::bigint = 0 OR number < @before) ORDER BY number DESC LIMIT @max_rows;

-- name: InsertDraft :exec
INSERT INTO drafts (id, name, base, source, tests, etag, author_id, author, created_at, updated_at)
VALUES (@id, @name, @base, @source, @tests, @etag, @author_id, @author, @created_at, @updated_at);

-- name: GetDraft :one
SELECT * FROM drafts WHERE id = @id;

-- name: LockDraft :one
-- For what depends on its content: it keeps that until the transaction ends. After the head, if both.
SELECT * FROM drafts WHERE id = @id FOR UPDATE;

-- name: ListDrafts :many
-- Without sources and tests, which may be large.
SELECT id, name, base, etag, author_id, author, created_at, updated_at FROM drafts ORDER BY updated_at DESC, id DESC LIMIT @max_rows;

-- name: CountDrafts :one
SELECT count(*) FROM drafts;

-- name: UpdateDraft :execrows
-- No row means that someone else saved it in the meantime.
UPDATE drafts SET name = @name, base = @base, source = @source, tests = @tests, etag = @new_etag, updated_at = @updated_at
WHERE id = @id AND etag = @etag;

-- name: DeleteDraft :execrows
DELETE FROM drafts WHERE id = @id AND etag = @etag;
