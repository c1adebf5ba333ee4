-- name: LockKeyUsePlace :one
-- Makes this transaction the only one that counts batches.
SELECT place FROM key_use_place WHERE one FOR UPDATE;

-- name: GetKeyUsePlace :one
SELECT place, since FROM key_use_place WHERE one;

-- name: SetKeyUsePlace :exec
UPDATE key_use_place SET place = @place, since = coalesce(since, sqlc.narg('since')), updated_at = @now WHERE one;

-- name: ListKeyUseReplicas :many
-- Runs of gateways that told something since a time; those that told last, should there be more.
SELECT * FROM key_use_replicas WHERE updated_at >= @since ORDER BY updated_at DESC, replica, boot LIMIT 10000;

-- name: ListKeyUseReplicasNamed :many
-- All runs that are known of some gateways.
SELECT * FROM key_use_replicas WHERE replica = ANY(@replicas::text[]) ORDER BY replica, updated_at DESC;

-- name: PutKeyUseReplica :exec
INSERT INTO key_use_replicas (replica, boot, seq, through, final, missing_from, missing_to, updated_at)
VALUES (@replica, @boot, @seq, @through, @final, sqlc.narg('missing_from'), sqlc.narg('missing_to'), @now)
ON CONFLICT (replica, boot) DO UPDATE SET seq = excluded.seq, through = excluded.through,
  final = excluded.final, missing_from = excluded.missing_from, missing_to = excluded.missing_to, updated_at = excluded.updated_at;

-- name: ListKnownKeySources :many
-- Which of the given sources have a row.
SELECT s.kid, s.network, s.agent FROM key_sources s
JOIN (SELECT unnest(@kids::text[]) AS kid, unnest(@networks::text[]) AS network, unnest(@agents::text[]) AS agent) asked
  ON s.kid = asked.kid AND s.network = asked.network AND s.agent = asked.agent
ORDER BY s.kid;

-- name: CountKeySources :many
SELECT kid, count(*) AS sources FROM key_sources WHERE kid = ANY(@kids::text[]) GROUP BY kid ORDER BY kid;

-- name: AddKeySources :exec
-- Adds up, to a bound that forged counts cannot cross; what is of no key version is left out. No two of the given are the same source.
-- The epoch is no time.
INSERT INTO key_sources AS s (kid, tenant_id, network, agent, first_seen, last_seen, requests, limited, refused, used_at, refused_at)
SELECT k.kid, k.tenant_id, a.network, a.agent, a.first_seen, a.last_seen, a.requests, a.limited, a.refused,
  nullif(a.used_at, 'epoch'), nullif(a.refused_at, 'epoch')
FROM (SELECT unnest(@kids::text[]) AS kid, unnest(@networks::text[]) AS network, unnest(@agents::text[]) AS agent,
    unnest(@first_seens::timestamptz[]) AS first_seen, unnest(@last_seens::timestamptz[]) AS last_seen, unnest(@requests::bigint[]) AS requests,
    unnest(@limiteds::bigint[]) AS limited, unnest(@refuseds::bigint[]) AS refused,
    unnest(@used_ats::timestamptz[]) AS used_at, unnest(@refused_ats::timestamptz[]) AS refused_at) a
JOIN key_versions k ON k.kid = a.kid
ON CONFLICT (kid, network, agent) DO UPDATE SET
  first_seen = least(s.first_seen, excluded.first_seen), last_seen = greatest(s.last_seen, excluded.last_seen),
  longest_gap = greatest(s.longest_gap, extract(epoch FROM excluded.first_seen - s.last_seen)::bigint),
  requests = least(s.requests + excluded.requests, 1::bigint << 53), limited = least(s.limited + excluded.limited, 1::bigint << 53),
  refused = least(s.refused + excluded.refused, 1::bigint << 53),
  used_at = greatest(s.used_at, excluded.used_at), refused_at = greatest(s.refused_at, excluded.refused_at);

-- name: AddKeyUses :exec
-- One row a key version; the network and agent are those of the newest time. The epoch is no time.
INSERT INTO key_use AS u (kid, tenant_id, first_used_at, last_used_at, last_network, last_agent, refused_at, refused_network, refused_agent)
SELECT k.kid, k.tenant_id, nullif(a.first_used_at, 'epoch'), nullif(a.last_used_at, 'epoch'), a.last_network, a.last_agent,
  nullif(a.refused_at, 'epoch'), a.refused_network, a.refused_agent
FROM (SELECT unnest(@kids::text[]) AS kid, unnest(@first_used_ats::timestamptz[]) AS first_used_at, unnest(@last_used_ats::timestamptz[]) AS last_used_at,
    unnest(@last_networks::text[]) AS last_network, unnest(@last_agents::text[]) AS last_agent, unnest(@refused_ats::timestamptz[]) AS refused_at,
    unnest(@refused_networks::text[]) AS refused_network, unnest(@refused_agents::text[]) AS refused_agent) a
JOIN key_versions k ON k.kid = a.kid
ON CONFLICT (kid) DO UPDATE SET
  first_used_at = least(u.first_used_at, excluded.first_used_at),
  last_network = CASE WHEN excluded.last_used_at >= coalesce(u.last_used_at, '-infinity') THEN excluded.last_network ELSE u.last_network END,
  last_agent = CASE WHEN excluded.last_used_at >= coalesce(u.last_used_at, '-infinity') THEN excluded.last_agent ELSE u.last_agent END,
  last_used_at = greatest(u.last_used_at, excluded.last_used_at),
  refused_network = CASE WHEN excluded.refused_at >= coalesce(u.refused_at, '-infinity') THEN excluded.refused_network ELSE u.refused_network END,
  refused_agent = CASE WHEN excluded.refused_at >= coalesce(u.refused_at, '-infinity') THEN excluded.refused_agent ELSE u.refused_agent END,
  refused_at = greatest(u.refused_at, excluded.refused_at);

-- name: AddKeyUseHours :exec
-- Adds up, to a bound that is low enough for the sums of many.
INSERT INTO key_use_hours AS h (kid, hour, requests, limited, refused)
SELECT k.kid, a.hour, least(a.requests, 1::bigint << 40), least(a.limited, 1::bigint << 40), least(a.refused, 1::bigint << 40)
FROM (SELECT unnest(@kids::text[]) AS kid, unnest(@hours::timestamptz[]) AS hour, unnest(@requests::bigint[]) AS requests,
    unnest(@limiteds::bigint[]) AS limited, unnest(@refuseds::bigint[]) AS refused) a
JOIN key_versions k ON k.kid = a.kid
ON CONFLICT (kid, hour) DO UPDATE SET requests = least(h.requests + excluded.requests, 1::bigint << 40),
  limited = least(h.limited + excluded.limited, 1::bigint << 40), refused = least(h.refused + excluded.refused, 1::bigint << 40);

-- name: ListKeyAlarms :many
-- Of the given keys those that were presented after they were revoked, of which nobody was told since a time.
SELECT u.kid, u.tenant_id, u.refused_at, u.refused_network, u.refused_agent, u.alarmed_at FROM key_use u
JOIN key_versions k ON k.kid = u.kid
WHERE u.kid = ANY(@kids::text[]) AND k.state = 'revoked' AND u.refused_at > k.revoked_at AND (u.alarmed_at IS NULL OR u.alarmed_at <= @told_before)
ORDER BY u.kid LIMIT @max_rows;

-- name: SetKeyAlarms :exec
UPDATE key_use SET alarmed_at = @now WHERE kid = ANY(@kids::text[]);

-- name: ListKeyUses :many
-- What is known of some keys, with the sums of the last 24 hours.
SELECT u.*, coalesce(h.requests, 0)::bigint AS requests, coalesce(h.refused, 0)::bigint AS refused
FROM key_use u
LEFT JOIN LATERAL (SELECT sum(d.requests) AS requests, sum(d.limited + d.refused) AS refused FROM key_use_hours d WHERE d.kid = u.kid AND d.hour > @since) h ON true
WHERE u.kid = ANY(@kids::text[]) ORDER BY u.kid;

-- name: ListKeySources :many
SELECT * FROM key_sources WHERE kid = @kid AND last_seen >= @since
ORDER BY last_seen DESC, network, agent LIMIT @max_rows;

-- name: DeleteOldKeySources :execrows
-- Some at a time, so that no statement takes long.
DELETE FROM key_sources WHERE (kid, network, agent) IN (
  SELECT s.kid, s.network, s.agent FROM key_sources s WHERE s.last_day < timezone('UTC', @before::timestamptz)::date ORDER BY s.last_day LIMIT @max_rows
);

-- name: DeleteOldKeyUseHours :execrows
DELETE FROM key_use_hours WHERE (kid, hour) IN (
  SELECT h.kid, h.hour FROM key_use_hours h WHERE h.hour < @before ORDER BY h.hour LIMIT @max_rows
);

-- name: DeleteOldKeyUseReplicas :exec
DELETE FROM key_use_replicas WHERE updated_at < @before;

-- name: DeleteSurplusKeyUseReplicas :exec
-- Keeps those that told last: whoever may write to the stream can name any number of gateways.
DELETE FROM key_use_replicas WHERE (replica, boot) IN (
  SELECT r.replica, r.boot FROM key_use_replicas r ORDER BY r.updated_at DESC, r.replica, r.boot OFFSET @kept
);
