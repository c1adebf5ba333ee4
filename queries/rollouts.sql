-- name: InsertRollout :exec
INSERT INTO rollouts (version, base, canary_count, zone, hold_ms, promote, max_refused_rise, replicas, state, author_id, author, started_at)
VALUES (@version, @base, @canary_count, @zone, @hold_ms, @promote, @max_refused_rise, @replicas, 'running', @author_id, @author, @started_at);

-- name: GetRunningRollout :one
-- At most one runs.
SELECT * FROM rollouts WHERE state = 'running';

-- name: GetRollout :one
SELECT * FROM rollouts WHERE version = @version;

-- name: ListRollouts :many
-- The newest first.
SELECT * FROM rollouts ORDER BY version DESC LIMIT @max_rows;

-- name: EndRollout :execrows
-- No row means that it has ended already. Callers hold the head's lock.
UPDATE rollouts SET state = @state, ended_at = @now, end_reason = @reason, ended_by = @ended_by, successor = @successor
WHERE version = @version AND state = 'running';

-- name: HighestVersion :one
-- Of all that are stored: a canary lies above the head.
SELECT coalesce(max(number), 0)::bigint AS number FROM policy_versions;

-- name: ListVersionDigests :many
SELECT number, digest FROM policy_versions WHERE number = ANY (@numbers::bigint[]);

-- name: GetVersionMark :one
-- What convergence needs of a version, without its body.
SELECT number, digest, created_at FROM policy_versions WHERE number = @number;

-- name: PutBeats :exec
-- The newest of each replica and way. Ages are in ms. The clock of this server counts, whichever console writes.
INSERT INTO gateway_beats AS b (id, via, boot, beat, seen_at)
SELECT unnest(@ids::text[]), @via, unnest(@boots::text[]), unnest(@beats::text[])::json,
  clock_timestamp() - make_interval(secs => unnest(sqlc.arg('ages_ms')::bigint[]) / 1000.0)
ON CONFLICT (id, via) DO UPDATE SET boot = excluded.boot, beat = excluded.beat, seen_at = excluded.seen_at
WHERE b.seen_at <= excluded.seen_at;

-- name: ListBeats :many
-- Of replicas that were heard of within so many ms, the last first, with their age in ms.
SELECT id, via, beat, (extract(epoch FROM clock_timestamp() - seen_at) * 1000)::bigint AS age_ms
FROM gateway_beats WHERE seen_at > clock_timestamp() - make_interval(secs => sqlc.arg('within_ms')::bigint / 1000.0) ORDER BY seen_at DESC, id, via LIMIT @max_rows;

-- name: CountBeats :one
-- Replicas that were heard of within so many ms, and rows within so many more.
SELECT count(DISTINCT id) FILTER (WHERE seen_at > clock_timestamp() - make_interval(secs => sqlc.arg('within_ms')::bigint / 1000.0))::bigint AS live,
  count(*)::bigint AS held
FROM gateway_beats WHERE seen_at > clock_timestamp() - make_interval(secs => sqlc.arg('held_ms')::bigint / 1000.0);

-- name: HasBeat :one
SELECT EXISTS (SELECT 1 FROM gateway_beats WHERE id = @id);

-- name: DeleteOldBeats :exec
DELETE FROM gateway_beats WHERE seen_at < clock_timestamp() - make_interval(secs => sqlc.arg('older_ms')::bigint / 1000.0);
