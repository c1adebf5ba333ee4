-- name: InsertQuotaGrant :exec
INSERT INTO quota_grants (id, tenant_id, period_start, period_end, units, reason, author_id, author, created_at)
VALUES (@id, @tenant_id, @period_start, sqlc.narg('period_end'), @units, @reason, @author_id, @author, @created_at);

-- name: ListQuotaGrants :many
-- A tenant's, the newest first.
SELECT * FROM quota_grants WHERE tenant_id = @tenant_id ORDER BY created_at DESC, id DESC LIMIT @max_rows;

-- name: SumQuotaGrants :many
-- What the tenants' records carry: units by period, a lifetime's first, then the newest period. It goes by no clock,
-- so that a record stays the same until somebody changes the tenant.
SELECT tenant_id, period_start, least(sum(units), 9007199254740991)::bigint AS units FROM quota_grants
WHERE tenant_id = ANY (@tenant_ids::text[]) GROUP BY tenant_id, period_start ORDER BY tenant_id, period_start = 'epoch' DESC, period_start DESC;

-- name: InsertQuotaReset :exec
INSERT INTO quota_resets (id, tenant_id, period_start, units, reason, author_id, author, created_at)
VALUES (@id, @tenant_id, @period_start, @units, @reason, @author_id, @author, @created_at);

-- name: SumQuotaResets :many
-- Units that no longer count, by tenant and period.
SELECT tenant_id, period_start, sum(units)::bigint AS units FROM quota_resets
WHERE tenant_id = ANY (@tenant_ids::text[]) GROUP BY tenant_id, period_start ORDER BY tenant_id, period_start;

-- name: PutQuotaStandings :exec
-- Many at once. What was healed last stays until something is healed again.
INSERT INTO quota_standings AS s (tenant_id, plan, period, period_start, period_end, time_zone, counts, over, amount, most, granted,
  redis_units, ledger_units, compared_at, complete, healed_at, healed_units)
SELECT n.tenant_id, n.plan, n.period, n.period_start, nullif(n.period_end, 'epoch'), n.time_zone, n.counts, n.over, n.amount, n.most, n.granted,
  nullif(n.redis_units, -1), n.ledger_units, @now::timestamptz, n.complete, CASE WHEN n.healed <> 0 THEN @now::timestamptz END, n.healed
FROM (SELECT unnest(@tenant_ids::text[]) AS tenant_id,
  unnest(@plans::text[]) AS plan,
  unnest(@periods::text[]) AS period,
  unnest(@starts::timestamptz[]) AS period_start,
  unnest(@ends::timestamptz[]) AS period_end,
  unnest(@time_zones::text[]) AS time_zone,
  unnest(@counts::text[]) AS counts,
  unnest(@overs::text[]) AS over,
  unnest(@amounts::bigint[]) AS amount,
  unnest(@mosts::bigint[]) AS most,
  unnest(@granted::bigint[]) AS granted,
  unnest(@redis_units::bigint[]) AS redis_units,
  unnest(@ledger_units::bigint[]) AS ledger_units,
  unnest(@complete::boolean[]) AS complete,
  unnest(@healed::bigint[]) AS healed) n
ON CONFLICT (tenant_id) DO UPDATE SET plan = excluded.plan, period = excluded.period, period_start = excluded.period_start, period_end = excluded.period_end,
  time_zone = excluded.time_zone, counts = excluded.counts, over = excluded.over, amount = excluded.amount, most = excluded.most, granted = excluded.granted,
  redis_units = excluded.redis_units, ledger_units = excluded.ledger_units, compared_at = excluded.compared_at, complete = excluded.complete,
  healed_at = coalesce(excluded.healed_at, s.healed_at), healed_units = CASE WHEN excluded.healed_at IS NULL THEN s.healed_units ELSE excluded.healed_units END;

-- name: DropQuotaStandings :exec
-- Of tenants that have no quota any more.
DELETE FROM quota_standings WHERE compared_at < @before;

-- name: ListQuotaStandings :many
SELECT sqlc.embed(s), t.name AS tenant_name FROM quota_standings s JOIN tenants t ON t.id = s.tenant_id
WHERE s.tenant_id = ANY (@tenant_ids::text[]) ORDER BY s.tenant_id;

-- name: ListQuotaStandingsByDrift :many
-- The furthest apart first; the cursor is the last row's drift and tenant.
SELECT sqlc.embed(s), t.name AS tenant_name FROM quota_standings s JOIN tenants t ON t.id = s.tenant_id
WHERE @after_id::text = '' OR abs(s.ledger_units - coalesce(s.redis_units, 0)) < @after_value::bigint
  OR (abs(s.ledger_units - coalesce(s.redis_units, 0)) = @after_value::bigint AND s.tenant_id > @after_id::text)
ORDER BY abs(s.ledger_units - coalesce(s.redis_units, 0)) DESC, s.tenant_id LIMIT @max_rows;

-- name: ListQuotaStandingsByUse :many
-- Those that have used the largest part of their amount first.
SELECT sqlc.embed(s), t.name AS tenant_name FROM quota_standings s JOIN tenants t ON t.id = s.tenant_id
WHERE s.period_end IS NULL OR s.period_end > @now
ORDER BY s.ledger_units::double precision / greatest(s.amount, 1) DESC, s.tenant_id LIMIT @max_rows;

-- name: SumQuotaDrift :one
-- How all of them stand together.
SELECT count(*) AS tenants, count(*) FILTER (WHERE ledger_units <> coalesce(redis_units, 0)) AS apart,
  coalesce(sum(abs(ledger_units - coalesce(redis_units, 0))), 0)::bigint AS drift,
  coalesce(min(compared_at), 'epoch')::timestamptz AS oldest, coalesce(max(healed_at), 'epoch')::timestamptz AS healed_at FROM quota_standings;

-- name: InsertQuotaCrossings :execrows
-- Many at once; one that was told before is left out.
INSERT INTO quota_crossings (tenant_id, period_start, period_end, percent, units, amount, crossed_at)
SELECT n.tenant_id, n.period_start, nullif(n.period_end, 'epoch'), n.percent, n.units, n.amount, @now::timestamptz
FROM (SELECT unnest(@tenant_ids::text[]) AS tenant_id,
  unnest(@starts::timestamptz[]) AS period_start,
  unnest(@ends::timestamptz[]) AS period_end,
  unnest(@percents::integer[]) AS percent,
  unnest(@units::bigint[]) AS units,
  unnest(@amounts::bigint[]) AS amount) n
WHERE NOT EXISTS (SELECT FROM quota_crossings c WHERE (c.tenant_id, c.period_start, c.percent) = (n.tenant_id, n.period_start, n.percent))
ON CONFLICT (tenant_id, period_start, percent) DO NOTHING;

-- name: ListQuotaCrossings :many
-- In the order in which they were seen; one console writes them at a time, so no lower id comes later.
SELECT sqlc.embed(c), t.name AS tenant_name FROM quota_crossings c JOIN tenants t ON t.id = c.tenant_id WHERE c.id > @after ORDER BY c.id LIMIT @max_rows;

-- name: ListQuotaCrossingsOf :many
SELECT * FROM quota_crossings WHERE tenant_id = @tenant_id AND period_start = @period_start ORDER BY percent;

-- name: InsertQuotaLoss :exec
INSERT INTO quota_losses (seen_at, lanes, rebuilt_at, tenants, raised, complete, missing)
VALUES (@seen_at, @lanes, @rebuilt_at, @tenants, @raised, @complete, @missing::text[]);

-- name: ListQuotaLosses :many
SELECT * FROM quota_losses ORDER BY id DESC LIMIT @max_rows;
