-- name: LockUsageRollup :one
-- Makes this transaction the only one that adds up.
SELECT ingest FROM usage_rollup WHERE one FOR UPDATE;

-- name: NextUsageSlice :one
-- Up to where events are added up next: about @rows of them, whole transactions.
SELECT coalesce(
  (SELECT e.ingest FROM usage_events e WHERE e.ingest > @after ORDER BY e.ingest OFFSET @rows LIMIT 1),
  (SELECT i.ingest FROM usage_intake i), 0)::bigint AS through;

-- name: RollUsage :exec
-- Adds events up, once: its position moves in the same statement.
WITH g AS MATERIALIZED (
  SELECT date_bin('1 minute', e.occurred_at, 'epoch') AS at, e.run, e.tenant_id, e.kid, e.route, e.outcome, sum(e.requests)::bigint AS requests, sum(e.cost)::bigint AS cost
  FROM usage_events e WHERE e.ingest > @after AND e.ingest <= @through GROUP BY 1, 2, 3, 4, 5, 6
), minutes AS (
  INSERT INTO usage_minutes AS u (at, tenant_id, kid, route, outcome, requests, cost)
  SELECT at, tenant_id, kid, route, outcome, sum(requests), sum(cost) FROM g GROUP BY 1, 2, 3, 4, 5 ORDER BY 2, 1, 3, 4, 5
  ON CONFLICT (tenant_id, at, kid, route, outcome) DO UPDATE SET requests = u.requests + excluded.requests, cost = u.cost + excluded.cost
), quarters AS (
  INSERT INTO usage_quarters AS u (at, tenant_id, kid, route, outcome, requests, cost)
  SELECT date_bin('15 minutes', at, 'epoch'), tenant_id, kid, route, outcome, sum(requests), sum(cost) FROM g GROUP BY 1, 2, 3, 4, 5 ORDER BY 2, 1, 3, 4, 5
  ON CONFLICT (tenant_id, at, kid, route, outcome) DO UPDATE SET requests = u.requests + excluded.requests, cost = u.cost + excluded.cost
), days AS (
  INSERT INTO usage_days AS u (at, tenant_id, kid, route, outcome, requests, cost)
  SELECT date_bin('1 day', at, 'epoch'), tenant_id, kid, route, outcome, sum(requests), sum(cost) FROM g GROUP BY 1, 2, 3, 4, 5 ORDER BY 2, 1, 3, 4, 5
  ON CONFLICT (tenant_id, at, kid, route, outcome) DO UPDATE SET requests = u.requests + excluded.requests, cost = u.cost + excluded.cost
), f AS MATERIALIZED (
  SELECT date_bin('15 minutes', at, 'epoch') AS at, replica, route, outcome, sum(requests)::bigint AS requests, sum(cost)::bigint AS cost
  FROM g JOIN usage_marks USING (run) GROUP BY 1, 2, 3, 4
), fleet AS (
  INSERT INTO usage_fleet AS u (at, replica, route, outcome, requests, cost) SELECT at, replica, route, outcome, requests, cost FROM f ORDER BY 1, 2, 3, 4
  ON CONFLICT (at, replica, route, outcome) DO UPDATE SET requests = u.requests + excluded.requests, cost = u.cost + excluded.cost
), fleet_days AS (
  INSERT INTO usage_fleet_days AS u (at, replica, route, outcome, requests, cost)
  SELECT date_bin('1 day', at, 'epoch'), replica, route, outcome, sum(requests), sum(cost) FROM f GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
  ON CONFLICT (at, replica, route, outcome) DO UPDATE SET requests = u.requests + excluded.requests, cost = u.cost + excluded.cost
), h AS MATERIALIZED (
  SELECT date_bin('1 hour', at, 'epoch') AS at, tenant_id, usage_class(outcome) AS c, sum(requests)::bigint AS requests, sum(cost)::bigint AS cost FROM g GROUP BY 1, 2, 3
), hours AS (
  INSERT INTO usage_tenant_hours AS u (at, tenant_id, admitted, cost, fallback, fallback_cost, interrupted, interrupted_cost, settled, refused, other)
  SELECT at, tenant_id, coalesce(sum(requests) FILTER (WHERE c IN ('admitted', 'fallback')), 0), coalesce(sum(cost) FILTER (WHERE c IN ('admitted', 'fallback', 'settled')), 0),
    coalesce(sum(requests) FILTER (WHERE c = 'fallback'), 0), coalesce(sum(cost) FILTER (WHERE c = 'fallback'), 0),
    coalesce(sum(requests) FILTER (WHERE c = 'interrupted'), 0), coalesce(sum(cost) FILTER (WHERE c = 'interrupted'), 0),
    coalesce(sum(cost) FILTER (WHERE c = 'settled'), 0), coalesce(sum(requests) FILTER (WHERE c = 'refused'), 0), coalesce(sum(requests) FILTER (WHERE c = 'other'), 0)
  FROM h GROUP BY 1, 2 ORDER BY 2, 1
  ON CONFLICT (tenant_id, at) DO UPDATE SET admitted = u.admitted + excluded.admitted, cost = u.cost + excluded.cost, fallback = u.fallback + excluded.fallback,
    fallback_cost = u.fallback_cost + excluded.fallback_cost, interrupted = u.interrupted + excluded.interrupted, interrupted_cost = u.interrupted_cost + excluded.interrupted_cost,
    settled = u.settled + excluded.settled, refused = u.refused + excluded.refused, other = u.other + excluded.other
), tenant_days AS (
  INSERT INTO usage_tenant_days AS u (at, tenant_id, admitted, cost, fallback, fallback_cost, interrupted, interrupted_cost, settled, refused, other)
  SELECT date_bin('1 day', at, 'epoch'), tenant_id, coalesce(sum(requests) FILTER (WHERE c IN ('admitted', 'fallback')), 0), coalesce(sum(cost) FILTER (WHERE c IN ('admitted', 'fallback', 'settled')), 0),
    coalesce(sum(requests) FILTER (WHERE c = 'fallback'), 0), coalesce(sum(cost) FILTER (WHERE c = 'fallback'), 0),
    coalesce(sum(requests) FILTER (WHERE c = 'interrupted'), 0), coalesce(sum(cost) FILTER (WHERE c = 'interrupted'), 0),
    coalesce(sum(cost) FILTER (WHERE c = 'settled'), 0), coalesce(sum(requests) FILTER (WHERE c = 'refused'), 0), coalesce(sum(requests) FILTER (WHERE c = 'other'), 0)
  FROM h GROUP BY 1, 2 ORDER BY 2, 1
  ON CONFLICT (tenant_id, at) DO UPDATE SET admitted = u.admitted + excluded.admitted, cost = u.cost + excluded.cost, fallback = u.fallback + excluded.fallback,
    fallback_cost = u.fallback_cost + excluded.fallback_cost, interrupted = u.interrupted + excluded.interrupted, interrupted_cost = u.interrupted_cost + excluded.interrupted_cost,
    settled = u.settled + excluded.settled, refused = u.refused + excluded.refused, other = u.other + excluded.other
)
UPDATE usage_rollup SET ingest = @through, updated_at = @now::timestamptz WHERE one;

-- name: ForgetUsageMinutes :execrows
DELETE FROM usage_minutes WHERE ctid IN (SELECT m.ctid FROM usage_minutes m WHERE m.at < @before ORDER BY m.at LIMIT @max_rows);

-- name: ForgetUsageQuarters :execrows
DELETE FROM usage_quarters WHERE ctid IN (SELECT m.ctid FROM usage_quarters m WHERE m.at < @before ORDER BY m.at LIMIT @max_rows);

-- name: ForgetUsageHours :execrows
DELETE FROM usage_tenant_hours WHERE ctid IN (SELECT m.ctid FROM usage_tenant_hours m WHERE m.at < @before ORDER BY m.at LIMIT @max_rows);

-- name: ForgetUsageFleet :execrows
DELETE FROM usage_fleet WHERE ctid IN (SELECT m.ctid FROM usage_fleet m WHERE m.at < @before ORDER BY m.at LIMIT @max_rows);

-- name: ForgetUsageDays :execrows
DELETE FROM usage_days WHERE ctid IN (SELECT m.ctid FROM usage_days m WHERE m.at < @before ORDER BY m.at LIMIT @max_rows);

-- name: CountWrongQuarters :one
-- Sums of quarters that differ from their events, as far as those were added up.
WITH e AS (
  SELECT date_bin('15 minutes', v.occurred_at, 'epoch') AS at, v.tenant_id, v.kid, v.route, v.outcome, sum(v.requests)::bigint AS requests, sum(v.cost)::bigint AS cost
  FROM usage_events v WHERE v.occurred_at >= @from_at AND v.occurred_at < @to_at AND v.ingest <= @through GROUP BY 1, 2, 3, 4, 5
), q AS (SELECT w.* FROM usage_quarters w WHERE w.at >= @from_at AND w.at < @to_at)
SELECT count(*) FROM e FULL JOIN q ON e.at = q.at AND e.tenant_id = q.tenant_id AND e.kid = q.kid AND e.route = q.route AND e.outcome = q.outcome
WHERE e.requests IS DISTINCT FROM q.requests OR e.cost IS DISTINCT FROM q.cost;

-- name: ClearUsageMinutes :exec
DELETE FROM usage_minutes WHERE at >= @from_at AND at < @to_at;

-- name: ClearUsageQuarters :exec
DELETE FROM usage_quarters WHERE at >= @from_at AND at < @to_at;

-- name: ClearUsageFleet :exec
DELETE FROM usage_fleet WHERE at >= @from_at AND at < @to_at;

-- name: ClearUsageDays :exec
DELETE FROM usage_days WHERE at >= @from_at AND at < @to_at;

-- name: ClearUsageFleetDays :exec
DELETE FROM usage_fleet_days WHERE at >= @from_at AND at < @to_at;

-- name: ClearUsageTenantHours :exec
DELETE FROM usage_tenant_hours WHERE at >= @from_at AND at < @to_at;

-- name: ClearUsageTenantDays :exec
DELETE FROM usage_tenant_days WHERE at >= @from_at AND at < @to_at;

-- name: RemakeUsageMinutes :exec
INSERT INTO usage_minutes (at, tenant_id, kid, route, outcome, requests, cost)
SELECT date_bin('1 minute', e.occurred_at, 'epoch'), e.tenant_id, e.kid, e.route, e.outcome, sum(e.requests), sum(e.cost)
FROM usage_events e WHERE e.occurred_at >= @from_at AND e.occurred_at < @to_at AND e.ingest <= @through GROUP BY 1, 2, 3, 4, 5;

-- name: RemakeUsageQuarters :exec
INSERT INTO usage_quarters (at, tenant_id, kid, route, outcome, requests, cost)
SELECT date_bin('15 minutes', e.occurred_at, 'epoch'), e.tenant_id, e.kid, e.route, e.outcome, sum(e.requests), sum(e.cost)
FROM usage_events e WHERE e.occurred_at >= @from_at AND e.occurred_at < @to_at AND e.ingest <= @through GROUP BY 1, 2, 3, 4, 5;

-- name: RemakeUsageFleet :exec
INSERT INTO usage_fleet (at, replica, route, outcome, requests, cost)
SELECT date_bin('15 minutes', e.occurred_at, 'epoch'), m.replica, e.route, e.outcome, sum(e.requests), sum(e.cost)
FROM usage_events e JOIN usage_marks m ON m.run = e.run WHERE e.occurred_at >= @from_at AND e.occurred_at < @to_at AND e.ingest <= @through GROUP BY 1, 2, 3, 4;

-- name: RemakeUsageDays :execrows
INSERT INTO usage_days (at, tenant_id, kid, route, outcome, requests, cost)
SELECT date_bin('1 day', q.at, 'epoch'), q.tenant_id, q.kid, q.route, q.outcome, sum(q.requests), sum(q.cost)
FROM usage_quarters q WHERE q.at >= @from_at AND q.at < @to_at GROUP BY 1, 2, 3, 4, 5;

-- name: RemakeUsageFleetDays :exec
INSERT INTO usage_fleet_days (at, replica, route, outcome, requests, cost)
SELECT date_bin('1 day', f.at, 'epoch'), f.replica, f.route, f.outcome, sum(f.requests), sum(f.cost)
FROM usage_fleet f WHERE f.at >= @from_at AND f.at < @to_at GROUP BY 1, 2, 3, 4;

-- name: RemakeUsageTenantHours :exec
INSERT INTO usage_tenant_hours (at, tenant_id, admitted, cost, fallback, fallback_cost, interrupted, interrupted_cost, settled, refused, other)
SELECT date_bin('1 hour', q.at, 'epoch'), q.tenant_id,
  coalesce(sum(q.requests) FILTER (WHERE c IN ('admitted', 'fallback')), 0), coalesce(sum(q.cost) FILTER (WHERE c IN ('admitted', 'fallback', 'settled')), 0),
  coalesce(sum(q.requests) FILTER (WHERE c = 'fallback'), 0), coalesce(sum(q.cost) FILTER (WHERE c = 'fallback'), 0),
  coalesce(sum(q.requests) FILTER (WHERE c = 'interrupted'), 0), coalesce(sum(q.cost) FILTER (WHERE c = 'interrupted'), 0),
  coalesce(sum(q.cost) FILTER (WHERE c = 'settled'), 0), coalesce(sum(q.requests) FILTER (WHERE c = 'refused'), 0), coalesce(sum(q.requests) FILTER (WHERE c = 'other'), 0)
FROM usage_quarters q, LATERAL usage_class(q.outcome) c WHERE q.at >= @from_at AND q.at < @to_at GROUP BY 1, 2;

-- name: RemakeUsageTenantDays :exec
INSERT INTO usage_tenant_days (at, tenant_id, admitted, cost, fallback, fallback_cost, interrupted, interrupted_cost, settled, refused, other)
SELECT date_bin('1 day', h.at, 'epoch'), h.tenant_id, sum(h.admitted), sum(h.cost), sum(h.fallback), sum(h.fallback_cost), sum(h.interrupted), sum(h.interrupted_cost),
  sum(h.settled), sum(h.refused), sum(h.other)
FROM usage_tenant_hours h WHERE h.at >= @from_at AND h.at < @to_at GROUP BY 1, 2;
