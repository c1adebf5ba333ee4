-- name: LockAudit :exec
-- One writer at a time, until the transaction ends: the chain has no forks and no gaps.
SELECT pg_advisory_xact_lock(7234002);

-- name: GetAuditHead :one
SELECT seq, hash FROM audit_events ORDER BY seq DESC LIMIT 1;

-- name: InsertAudit :exec
INSERT INTO audit_events (seq, at, actor_id, actor, role, via, action, object, object_id, tenant_id, before, after, changes, reason, ip, request_id, prev_hash, hash)
VALUES (@seq, @at, @actor_id, @actor, @role, @via, @action, @object, @object_id, @tenant_id, sqlc.narg('before'), sqlc.narg('after'), sqlc.narg('changes'),
  @reason, @ip, @request_id, @prev_hash, @hash);

-- name: ListAuditForward :many
-- Oldest first, for verification.
SELECT * FROM audit_events WHERE seq > @after_seq ORDER BY seq LIMIT @max_rows;
