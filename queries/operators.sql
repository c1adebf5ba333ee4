-- name: InsertOperator :exec
INSERT INTO operators (id, email, name, role, password_hash, created_at) VALUES (@id, @email, @name, @role, @password_hash, @created_at);

-- name: GetOperator :one
SELECT * FROM operators WHERE id = @id;

-- name: LockOperator :one
SELECT * FROM operators WHERE id = @id FOR UPDATE;

-- name: GetOperatorByEmail :one
SELECT * FROM operators WHERE lower(email) = lower(@email);

-- name: ListOperators :many
SELECT * FROM operators ORDER BY lower(email), id LIMIT 1000;

-- name: UpdateOperator :exec
UPDATE operators SET name = @name, role = @role, password_hash = @password_hash, disabled_at = sqlc.narg('disabled_at') WHERE id = @id;

-- name: InsertSession :exec
INSERT INTO sessions (hash, operator_id, data, ip, user_agent, created_at, seen_at, expires_at)
VALUES (@hash, @operator_id, @data, @ip, @user_agent, @created_at, @seen_at, @expires_at);

-- name: GetSession :one
-- Only with an operator who is still enabled.
SELECT sqlc.embed(s), sqlc.embed(o) FROM sessions s JOIN operators o ON o.id = s.operator_id
WHERE s.hash = @hash AND o.disabled_at IS NULL AND s.expires_at > @now AND s.seen_at > @idle_since;

-- name: SeeSession :exec
UPDATE sessions SET seen_at = @now WHERE hash = @hash;

-- name: SaveSession :exec
-- Never an upsert: a session that was ended stays ended.
UPDATE sessions SET data = @data WHERE hash = @hash;

-- name: DeleteSession :exec
DELETE FROM sessions WHERE hash = @hash;

-- name: DeleteSessionsOf :execrows
DELETE FROM sessions WHERE operator_id = @operator_id AND hash <> @keep_hash;

-- name: ListSessions :many
SELECT * FROM sessions WHERE operator_id = @operator_id AND expires_at > @now AND seen_at > @idle_since ORDER BY seen_at DESC, hash LIMIT 200;

-- name: DeleteDeadSessions :exec
DELETE FROM sessions WHERE expires_at <= @now OR seen_at <= @idle_since;

-- name: InsertToken :exec
INSERT INTO api_tokens (kid, operator_id, name, digest, created_at, expires_at)
VALUES (@kid, @operator_id, @name, @digest, @created_at, sqlc.narg('expires_at'));

-- name: GetToken :one
SELECT sqlc.embed(t), sqlc.embed(o) FROM api_tokens t JOIN operators o ON o.id = t.operator_id WHERE t.kid = @kid;

-- name: ListTokens :many
SELECT * FROM api_tokens WHERE operator_id = @operator_id ORDER BY created_at DESC, kid LIMIT 200;

-- name: RevokeToken :execrows
UPDATE api_tokens SET revoked_at = @now WHERE kid = @kid AND revoked_at IS NULL;

-- name: SeeToken :exec
UPDATE api_tokens SET last_used_at = @now WHERE kid = @kid;

-- name: DeleteExpiredIdempotencyKeys :exec
DELETE FROM idempotency_keys WHERE expires_at <= @now;

-- name: ClaimIdempotencyKey :execrows
-- No row means that the key is taken.
INSERT INTO idempotency_keys (actor_id, scope, key, fingerprint, created_at, expires_at)
VALUES (@actor_id, @scope, @key, @fingerprint, @created_at, @expires_at) ON CONFLICT DO NOTHING;

-- name: GetIdempotencyKey :one
SELECT * FROM idempotency_keys WHERE actor_id = @actor_id AND scope = @scope AND key = @key;

-- name: FinishIdempotencyKey :exec
UPDATE idempotency_keys SET answer = @answer WHERE actor_id = @actor_id AND scope = @scope AND key = @key;

-- name: ReleaseIdempotencyKey :exec
DELETE FROM idempotency_keys WHERE actor_id = @actor_id AND scope = @scope AND key = @key AND answer IS NULL;
