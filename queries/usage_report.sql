-- Reports. Each reads the coarsest sums that a range allows (days within it, finer ones at its
-- ends) and, from the events themselves, what is not added up yet: all in one statement.

-- name: UsageDetailSteps :many
-- By step and key of the group.
WITH u AS (
  SELECT m.at, m.requests, m.cost, m.tenant_id, m.kid, m.route, m.outcome FROM usage_minutes m WHERE m.at >= @minutes_from AND m.at < @minutes_to AND (cardinality(@tenants::text[]) = 0 OR m.tenant_id = ANY(@tenants::text[])) AND (@route::text = '' OR m.route = @route::text)
    AND (cardinality(@kids::text[]) = 0 OR m.kid = ANY(@kids::text[])) AND (@outcome::text = '' OR m.outcome = @outcome::text)
  UNION ALL SELECT q.at, q.requests, q.cost, q.tenant_id, q.kid, q.route, q.outcome FROM usage_quarters q WHERE q.at >= @from_at AND q.at < @days_from AND q.at >= @quarters_from AND (cardinality(@tenants::text[]) = 0 OR q.tenant_id = ANY(@tenants::text[])) AND (@route::text = '' OR q.route = @route::text)
    AND (cardinality(@kids::text[]) = 0 OR q.kid = ANY(@kids::text[])) AND (@outcome::text = '' OR q.outcome = @outcome::text)
  UNION ALL SELECT d.at, d.requests, d.cost, d.tenant_id, d.kid, d.route, d.outcome FROM usage_days d WHERE d.at >= @days_from AND d.at < @days_to AND (cardinality(@tenants::text[]) = 0 OR d.tenant_id = ANY(@tenants::text[])) AND (@route::text = '' OR d.route = @route::text)
    AND (cardinality(@kids::text[]) = 0 OR d.kid = ANY(@kids::text[])) AND (@outcome::text = '' OR d.outcome = @outcome::text)
  UNION ALL SELECT q.at, q.requests, q.cost, q.tenant_id, q.kid, q.route, q.outcome FROM usage_quarters q WHERE q.at >= @days_to AND q.at < @to_at AND q.at >= @quarters_from AND (cardinality(@tenants::text[]) = 0 OR q.tenant_id = ANY(@tenants::text[])) AND (@route::text = '' OR q.route = @route::text)
    AND (cardinality(@kids::text[]) = 0 OR q.kid = ANY(@kids::text[])) AND (@outcome::text = '' OR q.outcome = @outcome::text)
  UNION ALL SELECT e.occurred_at, e.requests, e.cost, e.tenant_id, e.kid, e.route, e.outcome FROM usage_events e WHERE e.ingest > (SELECT r.ingest FROM usage_rollup r) AND e.ingest <= (SELECT i.ingest FROM usage_intake i) AND e.occurred_at >= @from_at AND e.occurred_at < @to_at AND (cardinality(@tenants::text[]) = 0 OR e.tenant_id = ANY(@tenants::text[])) AND (@route::text = '' OR e.route = @route::text)
    AND (cardinality(@kids::text[]) = 0 OR e.kid = ANY(@kids::text[])) AND (@outcome::text = '' OR e.outcome = @outcome::text)
)
SELECT greatest(width_bucket(u.at, @starts::timestamptz[]), 1)::integer AS step, (CASE @grouped::text WHEN 'tenant' THEN u.tenant_id WHEN 'route' THEN u.route WHEN 'key' THEN u.kid WHEN 'outcome' THEN u.outcome ELSE '' END)::text AS key,
  coalesce(sum(u.requests) FILTER (WHERE c IN ('admitted', 'fallback')), 0)::bigint AS admitted, coalesce(sum(u.cost) FILTER (WHERE c IN ('admitted', 'fallback', 'settled')), 0)::bigint AS cost,
  coalesce(sum(u.requests) FILTER (WHERE c = 'fallback'), 0)::bigint AS fallback, coalesce(sum(u.cost) FILTER (WHERE c = 'fallback'), 0)::bigint AS fallback_cost,
  coalesce(sum(u.requests) FILTER (WHERE c = 'interrupted'), 0)::bigint AS interrupted, coalesce(sum(u.cost) FILTER (WHERE c = 'interrupted'), 0)::bigint AS interrupted_cost,
  coalesce(sum(u.cost) FILTER (WHERE c = 'settled'), 0)::bigint AS settled, coalesce(sum(u.requests) FILTER (WHERE c = 'refused'), 0)::bigint AS refused,
  coalesce(sum(u.requests) FILTER (WHERE c = 'other'), 0)::bigint AS other
FROM u, LATERAL usage_class(u.outcome) c GROUP BY 1, 2 ORDER BY 1, 2;

-- name: UsageDetailGroups :many
-- The largest groups, and how many there are.
WITH u AS (
  SELECT m.at, m.requests, m.cost, m.tenant_id, m.kid, m.route, m.outcome FROM usage_minutes m WHERE m.at >= @minutes_from AND m.at < @minutes_to AND (cardinality(@tenants::text[]) = 0 OR m.tenant_id = ANY(@tenants::text[])) AND (@route::text = '' OR m.route = @route::text)
    AND (cardinality(@kids::text[]) = 0 OR m.kid = ANY(@kids::text[])) AND (@outcome::text = '' OR m.outcome = @outcome::text)
  UNION ALL SELECT q.at, q.requests, q.cost, q.tenant_id, q.kid, q.route, q.outcome FROM usage_quarters q WHERE q.at >= @from_at AND q.at < @days_from AND q.at >= @quarters_from AND (cardinality(@tenants::text[]) = 0 OR q.tenant_id = ANY(@tenants::text[])) AND (@route::text = '' OR q.route = @route::text)
    AND (cardinality(@kids::text[]) = 0 OR q.kid = ANY(@kids::text[])) AND (@outcome::text = '' OR q.outcome = @outcome::text)
  UNION ALL SELECT d.at, d.requests, d.cost, d.tenant_id, d.kid, d.route, d.outcome FROM usage_days d WHERE d.at >= @days_from AND d.at < @days_to AND (cardinality(@tenants::text[]) = 0 OR d.tenant_id = ANY(@tenants::text[])) AND (@route::text = '' OR d.route = @route::text)
    AND (cardinality(@kids::text[]) = 0 OR d.kid = ANY(@kids::text[])) AND (@outcome::text = '' OR d.outcome = @outcome::text)
  UNION ALL SELECT q.at, q.requests, q.cost, q.tenant_id, q.kid, q.route, q.outcome FROM usage_quarters q WHERE q.at >= @days_to AND q.at < @to_at AND q.at >= @quarters_from AND (cardinality(@tenants::text[]) = 0 OR q.tenant_id = ANY(@tenants::text[])) AND (@route::text = '' OR q.route = @route::text)
    AND (cardinality(@kids::text[]) = 0 OR q.kid = ANY(@kids::text[])) AND (@outcome::text = '' OR q.outcome = @outcome::text)
  UNION ALL SELECT e.occurred_at, e.requests, e.cost, e.tenant_id, e.kid, e.route, e.outcome FROM usage_events e WHERE e.ingest > (SELECT r.ingest FROM usage_rollup r) AND e.ingest <= (SELECT i.ingest FROM usage_intake i) AND e.occurred_at >= @from_at AND e.occurred_at < @to_at AND (cardinality(@tenants::text[]) = 0 OR e.tenant_id = ANY(@tenants::text[])) AND (@route::text = '' OR e.route = @route::text)
    AND (cardinality(@kids::text[]) = 0 OR e.kid = ANY(@kids::text[])) AND (@outcome::text = '' OR e.outcome = @outcome::text)
), s AS (
SELECT (CASE @grouped::text WHEN 'tenant' THEN u.tenant_id WHEN 'route' THEN u.route WHEN 'key' THEN u.kid WHEN 'outcome' THEN u.outcome ELSE '' END)::text AS key,
  coalesce(sum(u.requests) FILTER (WHERE c IN ('admitted', 'fallback')), 0)::bigint AS admitted, coalesce(sum(u.cost) FILTER (WHERE c IN ('admitted', 'fallback', 'settled')), 0)::bigint AS cost,
  coalesce(sum(u.requests) FILTER (WHERE c = 'fallback'), 0)::bigint AS fallback, coalesce(sum(u.cost) FILTER (WHERE c = 'fallback'), 0)::bigint AS fallback_cost,
  coalesce(sum(u.requests) FILTER (WHERE c = 'interrupted'), 0)::bigint AS interrupted, coalesce(sum(u.cost) FILTER (WHERE c = 'interrupted'), 0)::bigint AS interrupted_cost,
  coalesce(sum(u.cost) FILTER (WHERE c = 'settled'), 0)::bigint AS settled, coalesce(sum(u.requests) FILTER (WHERE c = 'refused'), 0)::bigint AS refused,
  coalesce(sum(u.requests) FILTER (WHERE c = 'other'), 0)::bigint AS other
FROM u, LATERAL usage_class(u.outcome) c GROUP BY 1
)
SELECT s.*, count(*) OVER () AS groups FROM s ORDER BY CASE @by::text WHEN 'cost' THEN s.cost WHEN 'refused' THEN s.refused ELSE s.admitted + s.interrupted + s.refused + s.other END DESC, s.key LIMIT @max_rows;

-- name: UsageFleetSteps :many
WITH u AS (
  SELECT q.at, q.requests, q.cost, q.replica, q.route, q.outcome FROM usage_fleet q WHERE q.at >= @from_at AND q.at < @days_from AND (@replica::text = '' OR q.replica = @replica::text) AND (@route::text = '' OR q.route = @route::text) AND (@outcome::text = '' OR q.outcome = @outcome::text)
  UNION ALL SELECT d.at, d.requests, d.cost, d.replica, d.route, d.outcome FROM usage_fleet_days d WHERE d.at >= @days_from AND d.at < @days_to AND (@replica::text = '' OR d.replica = @replica::text) AND (@route::text = '' OR d.route = @route::text) AND (@outcome::text = '' OR d.outcome = @outcome::text)
  UNION ALL SELECT q.at, q.requests, q.cost, q.replica, q.route, q.outcome FROM usage_fleet q WHERE q.at >= @days_to AND q.at < @to_at AND (@replica::text = '' OR q.replica = @replica::text) AND (@route::text = '' OR q.route = @route::text) AND (@outcome::text = '' OR q.outcome = @outcome::text)
  UNION ALL SELECT e.occurred_at, e.requests, e.cost, m.replica, e.route, e.outcome FROM usage_events e JOIN usage_marks m ON m.run = e.run
    WHERE e.ingest > (SELECT r.ingest FROM usage_rollup r) AND e.ingest <= (SELECT i.ingest FROM usage_intake i) AND e.occurred_at >= @from_at AND e.occurred_at < @to_at AND (@replica::text = '' OR m.replica = @replica::text) AND (@route::text = '' OR e.route = @route::text) AND (@outcome::text = '' OR e.outcome = @outcome::text)
)
SELECT greatest(width_bucket(u.at, @starts::timestamptz[]), 1)::integer AS step, (CASE @grouped::text WHEN 'route' THEN u.route WHEN 'gateway' THEN u.replica WHEN 'outcome' THEN u.outcome ELSE '' END)::text AS key,
  coalesce(sum(u.requests) FILTER (WHERE c IN ('admitted', 'fallback')), 0)::bigint AS admitted, coalesce(sum(u.cost) FILTER (WHERE c IN ('admitted', 'fallback', 'settled')), 0)::bigint AS cost,
  coalesce(sum(u.requests) FILTER (WHERE c = 'fallback'), 0)::bigint AS fallback, coalesce(sum(u.cost) FILTER (WHERE c = 'fallback'), 0)::bigint AS fallback_cost,
  coalesce(sum(u.requests) FILTER (WHERE c = 'interrupted'), 0)::bigint AS interrupted, coalesce(sum(u.cost) FILTER (WHERE c = 'interrupted'), 0)::bigint AS interrupted_cost,
  coalesce(sum(u.cost) FILTER (WHERE c = 'settled'), 0)::bigint AS settled, coalesce(sum(u.requests) FILTER (WHERE c = 'refused'), 0)::bigint AS refused,
  coalesce(sum(u.requests) FILTER (WHERE c = 'other'), 0)::bigint AS other
FROM u, LATERAL usage_class(u.outcome) c GROUP BY 1, 2 ORDER BY 1, 2;

-- name: UsageTenantSteps :many
WITH u AS (
  SELECT h.at, h.tenant_id, h.admitted, h.cost, h.fallback, h.fallback_cost, h.interrupted, h.interrupted_cost, h.settled, h.refused, h.other FROM usage_tenant_hours h WHERE h.at >= @hours_from AND h.at < @days_from AND (cardinality(@tenants::text[]) = 0 OR h.tenant_id = ANY(@tenants::text[])) AND (@plan::text = '' OR h.tenant_id IN (SELECT p.id FROM tenants p WHERE p.plan = @plan::text))
  UNION ALL SELECT d.at, d.tenant_id, d.admitted, d.cost, d.fallback, d.fallback_cost, d.interrupted, d.interrupted_cost, d.settled, d.refused, d.other FROM usage_tenant_days d WHERE d.at >= @days_from AND d.at < @days_to AND (cardinality(@tenants::text[]) = 0 OR d.tenant_id = ANY(@tenants::text[])) AND (@plan::text = '' OR d.tenant_id IN (SELECT p.id FROM tenants p WHERE p.plan = @plan::text))
  UNION ALL SELECT h.at, h.tenant_id, h.admitted, h.cost, h.fallback, h.fallback_cost, h.interrupted, h.interrupted_cost, h.settled, h.refused, h.other FROM usage_tenant_hours h WHERE h.at >= @days_to AND h.at < @hours_to AND (cardinality(@tenants::text[]) = 0 OR h.tenant_id = ANY(@tenants::text[])) AND (@plan::text = '' OR h.tenant_id IN (SELECT p.id FROM tenants p WHERE p.plan = @plan::text))
  UNION ALL SELECT q.at, q.tenant_id, CASE WHEN usage_class(q.outcome) IN ('admitted', 'fallback') THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) IN ('admitted', 'fallback', 'settled') THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'fallback' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'fallback' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'interrupted' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'interrupted' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'settled' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'refused' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'other' THEN q.requests ELSE 0 END
    FROM usage_quarters q WHERE q.at >= @from_at AND q.at < @hours_from AND q.at >= @quarters_from AND (cardinality(@tenants::text[]) = 0 OR q.tenant_id = ANY(@tenants::text[])) AND (@plan::text = '' OR q.tenant_id IN (SELECT p.id FROM tenants p WHERE p.plan = @plan::text))
  UNION ALL SELECT q.at, q.tenant_id, CASE WHEN usage_class(q.outcome) IN ('admitted', 'fallback') THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) IN ('admitted', 'fallback', 'settled') THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'fallback' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'fallback' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'interrupted' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'interrupted' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'settled' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'refused' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'other' THEN q.requests ELSE 0 END
    FROM usage_quarters q WHERE q.at >= @hours_to AND q.at < @to_at AND q.at >= @quarters_from AND (cardinality(@tenants::text[]) = 0 OR q.tenant_id = ANY(@tenants::text[])) AND (@plan::text = '' OR q.tenant_id IN (SELECT p.id FROM tenants p WHERE p.plan = @plan::text))
  UNION ALL SELECT e.occurred_at, e.tenant_id, CASE WHEN usage_class(e.outcome) IN ('admitted', 'fallback') THEN e.requests ELSE 0 END,
    CASE WHEN usage_class(e.outcome) IN ('admitted', 'fallback', 'settled') THEN e.cost ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'fallback' THEN e.requests ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'fallback' THEN e.cost ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'interrupted' THEN e.requests ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'interrupted' THEN e.cost ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'settled' THEN e.cost ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'refused' THEN e.requests ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'other' THEN e.requests ELSE 0 END
    FROM usage_events e WHERE e.ingest > (SELECT r.ingest FROM usage_rollup r) AND e.ingest <= (SELECT i.ingest FROM usage_intake i) AND e.occurred_at >= @from_at AND e.occurred_at < @to_at AND (cardinality(@tenants::text[]) = 0 OR e.tenant_id = ANY(@tenants::text[])) AND (@plan::text = '' OR e.tenant_id IN (SELECT p.id FROM tenants p WHERE p.plan = @plan::text))
)
SELECT greatest(width_bucket(u.at, @starts::timestamptz[]), 1)::integer AS step, (CASE @grouped::text WHEN 'tenant' THEN u.tenant_id WHEN 'plan' THEN coalesce(t.plan, '') ELSE '' END)::text AS key,
  coalesce(sum(u.admitted), 0)::bigint AS admitted,
  coalesce(sum(u.cost), 0)::bigint AS cost,
  coalesce(sum(u.fallback), 0)::bigint AS fallback,
  coalesce(sum(u.fallback_cost), 0)::bigint AS fallback_cost,
  coalesce(sum(u.interrupted), 0)::bigint AS interrupted,
  coalesce(sum(u.interrupted_cost), 0)::bigint AS interrupted_cost,
  coalesce(sum(u.settled), 0)::bigint AS settled,
  coalesce(sum(u.refused), 0)::bigint AS refused,
  coalesce(sum(u.other), 0)::bigint AS other
FROM u LEFT JOIN tenants t ON t.id = u.tenant_id GROUP BY 1, 2 ORDER BY 1, 2;

-- name: UsageTenantGroups :many
WITH u AS (
  SELECT h.at, h.tenant_id, h.admitted, h.cost, h.fallback, h.fallback_cost, h.interrupted, h.interrupted_cost, h.settled, h.refused, h.other FROM usage_tenant_hours h WHERE h.at >= @hours_from AND h.at < @days_from AND (cardinality(@tenants::text[]) = 0 OR h.tenant_id = ANY(@tenants::text[])) AND (@plan::text = '' OR h.tenant_id IN (SELECT p.id FROM tenants p WHERE p.plan = @plan::text))
  UNION ALL SELECT d.at, d.tenant_id, d.admitted, d.cost, d.fallback, d.fallback_cost, d.interrupted, d.interrupted_cost, d.settled, d.refused, d.other FROM usage_tenant_days d WHERE d.at >= @days_from AND d.at < @days_to AND (cardinality(@tenants::text[]) = 0 OR d.tenant_id = ANY(@tenants::text[])) AND (@plan::text = '' OR d.tenant_id IN (SELECT p.id FROM tenants p WHERE p.plan = @plan::text))
  UNION ALL SELECT h.at, h.tenant_id, h.admitted, h.cost, h.fallback, h.fallback_cost, h.interrupted, h.interrupted_cost, h.settled, h.refused, h.other FROM usage_tenant_hours h WHERE h.at >= @days_to AND h.at < @hours_to AND (cardinality(@tenants::text[]) = 0 OR h.tenant_id = ANY(@tenants::text[])) AND (@plan::text = '' OR h.tenant_id IN (SELECT p.id FROM tenants p WHERE p.plan = @plan::text))
  UNION ALL SELECT q.at, q.tenant_id, CASE WHEN usage_class(q.outcome) IN ('admitted', 'fallback') THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) IN ('admitted', 'fallback', 'settled') THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'fallback' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'fallback' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'interrupted' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'interrupted' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'settled' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'refused' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'other' THEN q.requests ELSE 0 END
    FROM usage_quarters q WHERE q.at >= @from_at AND q.at < @hours_from AND q.at >= @quarters_from AND (cardinality(@tenants::text[]) = 0 OR q.tenant_id = ANY(@tenants::text[])) AND (@plan::text = '' OR q.tenant_id IN (SELECT p.id FROM tenants p WHERE p.plan = @plan::text))
  UNION ALL SELECT q.at, q.tenant_id, CASE WHEN usage_class(q.outcome) IN ('admitted', 'fallback') THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) IN ('admitted', 'fallback', 'settled') THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'fallback' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'fallback' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'interrupted' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'interrupted' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'settled' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'refused' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'other' THEN q.requests ELSE 0 END
    FROM usage_quarters q WHERE q.at >= @hours_to AND q.at < @to_at AND q.at >= @quarters_from AND (cardinality(@tenants::text[]) = 0 OR q.tenant_id = ANY(@tenants::text[])) AND (@plan::text = '' OR q.tenant_id IN (SELECT p.id FROM tenants p WHERE p.plan = @plan::text))
  UNION ALL SELECT e.occurred_at, e.tenant_id, CASE WHEN usage_class(e.outcome) IN ('admitted', 'fallback') THEN e.requests ELSE 0 END,
    CASE WHEN usage_class(e.outcome) IN ('admitted', 'fallback', 'settled') THEN e.cost ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'fallback' THEN e.requests ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'fallback' THEN e.cost ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'interrupted' THEN e.requests ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'interrupted' THEN e.cost ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'settled' THEN e.cost ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'refused' THEN e.requests ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'other' THEN e.requests ELSE 0 END
    FROM usage_events e WHERE e.ingest > (SELECT r.ingest FROM usage_rollup r) AND e.ingest <= (SELECT i.ingest FROM usage_intake i) AND e.occurred_at >= @from_at AND e.occurred_at < @to_at AND (cardinality(@tenants::text[]) = 0 OR e.tenant_id = ANY(@tenants::text[])) AND (@plan::text = '' OR e.tenant_id IN (SELECT p.id FROM tenants p WHERE p.plan = @plan::text))
), s AS (
SELECT (CASE @grouped::text WHEN 'tenant' THEN u.tenant_id WHEN 'plan' THEN coalesce(t.plan, '') ELSE '' END)::text AS key,
  coalesce(sum(u.admitted), 0)::bigint AS admitted,
  coalesce(sum(u.cost), 0)::bigint AS cost,
  coalesce(sum(u.fallback), 0)::bigint AS fallback,
  coalesce(sum(u.fallback_cost), 0)::bigint AS fallback_cost,
  coalesce(sum(u.interrupted), 0)::bigint AS interrupted,
  coalesce(sum(u.interrupted_cost), 0)::bigint AS interrupted_cost,
  coalesce(sum(u.settled), 0)::bigint AS settled,
  coalesce(sum(u.refused), 0)::bigint AS refused,
  coalesce(sum(u.other), 0)::bigint AS other
FROM u LEFT JOIN tenants t ON t.id = u.tenant_id GROUP BY 1
)
SELECT s.*, count(*) OVER () AS groups FROM s ORDER BY CASE @by::text WHEN 'cost' THEN s.cost WHEN 'refused' THEN s.refused ELSE s.admitted + s.interrupted + s.refused + s.other END DESC, s.key LIMIT @max_rows;

-- name: SumUsageOf :many
-- What tenants used, each in a range of its own: days within it, hours and quarters at its ends.
WITH asks AS (
  SELECT unnest(@numbers::integer[]) AS n, unnest(@tenant_ids::text[]) AS tenant_id, unnest(@froms::timestamptz[]) AS f, unnest(@hours_froms::timestamptz[]) AS hf,
    unnest(@days_froms::timestamptz[]) AS df, unnest(@days_tos::timestamptz[]) AS dt, unnest(@hours_tos::timestamptz[]) AS ht, unnest(@tos::timestamptz[]) AS t
), parts AS (
  SELECT a.n, d.admitted, d.cost, d.fallback, d.fallback_cost, d.interrupted, d.interrupted_cost, d.settled, d.refused, d.other FROM asks a JOIN usage_tenant_days d ON d.tenant_id = a.tenant_id AND d.at >= a.df AND d.at < a.dt
  UNION ALL SELECT a.n, h.admitted, h.cost, h.fallback, h.fallback_cost, h.interrupted, h.interrupted_cost, h.settled, h.refused, h.other FROM asks a JOIN usage_tenant_hours h ON h.tenant_id = a.tenant_id AND h.at >= a.hf AND h.at < a.df
  UNION ALL SELECT a.n, h.admitted, h.cost, h.fallback, h.fallback_cost, h.interrupted, h.interrupted_cost, h.settled, h.refused, h.other FROM asks a JOIN usage_tenant_hours h ON h.tenant_id = a.tenant_id AND h.at >= a.dt AND h.at < a.ht
  UNION ALL SELECT a.n, CASE WHEN usage_class(q.outcome) IN ('admitted', 'fallback') THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) IN ('admitted', 'fallback', 'settled') THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'fallback' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'fallback' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'interrupted' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'interrupted' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'settled' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'refused' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'other' THEN q.requests ELSE 0 END
    FROM asks a JOIN usage_quarters q ON q.tenant_id = a.tenant_id AND q.at >= a.f AND q.at < a.hf
  UNION ALL SELECT a.n, CASE WHEN usage_class(q.outcome) IN ('admitted', 'fallback') THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) IN ('admitted', 'fallback', 'settled') THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'fallback' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'fallback' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'interrupted' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'interrupted' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'settled' THEN q.cost ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'refused' THEN q.requests ELSE 0 END,
    CASE WHEN usage_class(q.outcome) = 'other' THEN q.requests ELSE 0 END
    FROM asks a JOIN usage_quarters q ON q.tenant_id = a.tenant_id AND q.at >= a.ht AND q.at < a.t
  UNION ALL SELECT a.n, CASE WHEN usage_class(e.outcome) IN ('admitted', 'fallback') THEN e.requests ELSE 0 END,
    CASE WHEN usage_class(e.outcome) IN ('admitted', 'fallback', 'settled') THEN e.cost ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'fallback' THEN e.requests ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'fallback' THEN e.cost ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'interrupted' THEN e.requests ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'interrupted' THEN e.cost ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'settled' THEN e.cost ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'refused' THEN e.requests ELSE 0 END,
    CASE WHEN usage_class(e.outcome) = 'other' THEN e.requests ELSE 0 END
    FROM usage_events e JOIN asks a ON a.tenant_id = e.tenant_id AND e.occurred_at >= a.f AND e.occurred_at < a.t WHERE e.ingest > (SELECT r.ingest FROM usage_rollup r) AND e.ingest <= (SELECT i.ingest FROM usage_intake i)
)
SELECT p.n::integer AS n, coalesce(sum(p.admitted), 0)::bigint AS admitted,
  coalesce(sum(p.cost), 0)::bigint AS cost,
  coalesce(sum(p.fallback), 0)::bigint AS fallback,
  coalesce(sum(p.fallback_cost), 0)::bigint AS fallback_cost,
  coalesce(sum(p.interrupted), 0)::bigint AS interrupted,
  coalesce(sum(p.interrupted_cost), 0)::bigint AS interrupted_cost,
  coalesce(sum(p.settled), 0)::bigint AS settled,
  coalesce(sum(p.refused), 0)::bigint AS refused,
  coalesce(sum(p.other), 0)::bigint AS other
FROM parts p GROUP BY p.n ORDER BY p.n;

-- name: UsageLastUsed :many
-- The last hour or day in which tenants had a request admitted.
SELECT t.id::text AS id, coalesce(h.at, d.at, 'epoch')::timestamptz AS at FROM (SELECT unnest(@tenant_ids::text[]) AS id) t
LEFT JOIN LATERAL (SELECT max(u.at) AS at FROM usage_tenant_hours u WHERE u.tenant_id = t.id AND u.admitted > 0 AND u.at >= @hours_since) h ON true
LEFT JOIN LATERAL (SELECT max(v.at) AS at FROM usage_tenant_days v WHERE v.tenant_id = t.id AND v.admitted > 0 AND v.at >= @days_since AND h.at IS NULL) d ON true
ORDER BY t.id;
