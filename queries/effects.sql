-- name: PutConverged :exec
-- The first sight counts.
INSERT INTO version_effects (number, replicas, after_ms, updated_at) VALUES (@number, @replicas::integer, @after_ms::bigint, @now)
ON CONFLICT (number) DO UPDATE SET replicas = excluded.replicas, after_ms = excluded.after_ms, updated_at = excluded.updated_at
WHERE version_effects.replicas IS NULL;

-- name: PutTraffic :exec
INSERT INTO version_effects (number, before_requests, before_refused, after_requests, after_refused, judged, updated_at)
VALUES (@number, sqlc.narg('before_requests'), sqlc.narg('before_refused'), sqlc.narg('after_requests'), sqlc.narg('after_refused'), true, @now)
ON CONFLICT (number) DO UPDATE SET before_requests = excluded.before_requests, before_refused = excluded.before_refused,
  after_requests = excluded.after_requests, after_refused = excluded.after_refused, judged = true, updated_at = excluded.updated_at;

-- name: ListEffects :many
SELECT * FROM version_effects WHERE number = ANY (@numbers::bigint[]);

-- name: GetVersionOfDraft :one
-- The latest, as a draft's id is never given twice.
SELECT number FROM policy_versions WHERE proof ->> 'draft' = @draft::text ORDER BY number DESC LIMIT 1;
