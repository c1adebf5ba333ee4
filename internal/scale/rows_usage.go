package scale

import "fmt"

// usageDays is how far back usage goes.
const usageDays = 90

// Usage is that of each tenth tenant. Events lie evenly over 90 days in the order of
// time, a tenant's at times of their own; one in a hundred tenants has fifty times what
// others have. Sums are added up from the events, as the ledger does.
//
//nolint:gochecknoglobals // text; nothing writes to it
var (
	seedEvents = fmt.Sprintf(`
INSERT INTO usage_events (occurred_at, ingest, seq, requests, cost, run, tenant_id, kid, route, outcome)
SELECT date_trunc('second', $4::timestamptz + n * (interval '%[2]d days' / $1::int)), 1 + n / 200, 1 + n / 2,
  CASE outcome WHEN 'settled' THEN 0 ELSE busy * (1 + n %% 13) END, CASE outcome WHEN 'limited' THEN 0 WHEN 'settled' THEN -1 ELSE busy * (1 + n %% 13) * 2 END,
  run, %[1]s, substr(md5('k1-' || c), 1, 4) || '1' || lpad(c::text, 7, '0'), (ARRAY['report', 'graphql', 'login', 'search', 'upload', 'everything-else'])[1 + n / 7 %% 6], outcome
FROM (
  SELECT n, (10 * (u + 1))::int AS i, ((10 * (u + 1) - 1) * $3::int + n / 3 %% $3::int)::int AS c, CASE WHEN u %% 100 = 4 THEN 50 ELSE 1 END AS busy, (SELECT min(run) FROM usage_marks) + n %% 2 AS run,
    CASE WHEN n / 11 %% 10 = 3 THEN 'limited' WHEN n / 11 %% 50 = 7 THEN 'settled' WHEN n / 11 %% 100 = 9 THEN 'fallback-admitted' WHEN n / 11 %% 200 = 1 THEN 'interrupted' ELSE 'admitted' END AS outcome
  FROM (SELECT n::int, n::bigint * 7919 %% ($2::int / 10) AS u FROM generate_series(0, $1::int - 1) n) n
) n`, fmt.Sprintf(tenantID, "i"), usageDays)

	// A closed period for each of two months of each tenant that used anything.
	seedPeriods = fmt.Sprintf(`
INSERT INTO usage_periods (id, tenant_id, from_at, to_at, closed_at, closed_by, note, ingest, admitted, cost, fallback, fallback_cost, interrupted, interrupted_cost, settled, refused, other)
SELECT 'upr_' || translate(left(md5('p' || d.tenant_id || m), 16), '0189', 'ghij'), d.tenant_id, m, m + interval '28 days', now() - interval '1 hour', '%s', '', $2,
  sum(admitted), sum(cost), sum(fallback), sum(fallback_cost), sum(interrupted), sum(interrupted_cost), sum(settled), sum(refused), sum(other)
FROM (SELECT date_bin('1 day', $1::timestamptz, 'epoch') + n * interval '28 days' + interval '1 day' AS m FROM generate_series(0, 1) n) m JOIN usage_tenant_days d ON d.at >= m AND d.at < m + interval '28 days'
GROUP BY d.tenant_id, m`, "opr_aaaaaaaaaaaaaaaa")
)

const (
	seedMonths = `SELECT usage_make_month(m::date) FROM generate_series(date_trunc('month', $1::timestamptz AT TIME ZONE 'UTC'), now() AT TIME ZONE 'UTC', interval '1 month') m`

	seedMarks = `
INSERT INTO usage_marks (replica, boot, seq, through, first_at, updated_at)
SELECT 'gw_seed' || n, 'b' || n, $1::bigint / 2, now(), now() - interval '91 days', now() FROM generate_series(1, 2) n`

	seedQuotas = `
INSERT INTO quota_standings (tenant_id, plan, period, period_start, period_end, time_zone, counts, over, amount, most, granted, redis_units, ledger_units, compared_at, complete)
SELECT t.id, t.plan, 'month', date_trunc('month', now()), date_trunc('month', now()) + interval '1 month', 'UTC', 'cost', 'block', 10000, 11000, 0, u.cost, u.cost, now(), true
FROM (SELECT tenant_id, greatest(sum(cost), 0)::bigint AS cost FROM usage_tenant_days WHERE at >= date_trunc('month', now()) - interval '10 days' GROUP BY 1) u JOIN tenants t ON t.id = u.tenant_id`

	seedGaps = `
INSERT INTO usage_gaps (run, first_seq, last_seq, missing, after_at, noted_at)
SELECT (SELECT min(run) FROM usage_marks), n, n, 1, now() - n * interval '1 hour', now() - n * interval '1 hour' FROM generate_series(1, 200) n`

	seedHeld = `
INSERT INTO usage_quarantine (reason, detail, replica, boot, seq, event, events, received_at)
SELECT 'late', 'It came too late.', 'gw_seed1', 'b1', n, json_build_object('seq', n), 1, now() - n * interval '1 minute' FROM generate_series(1, 1000) n`

	sumMinutes = `
INSERT INTO usage_minutes (at, tenant_id, kid, route, outcome, requests, cost)
SELECT date_bin('1 minute', occurred_at, 'epoch') AS at, tenant_id, kid, route, outcome, sum(requests), sum(cost)
FROM usage_events WHERE occurred_at >= now() - interval '8 days' GROUP BY 1, 2, 3, 4, 5 ORDER BY 1`

	sumQuarters = `
INSERT INTO usage_quarters (at, tenant_id, kid, route, outcome, requests, cost)
SELECT date_bin('15 minutes', occurred_at, 'epoch') AS at, tenant_id, kid, route, outcome, sum(requests), sum(cost) FROM usage_events GROUP BY 1, 2, 3, 4, 5 ORDER BY 1`

	sumDays = `
INSERT INTO usage_days (at, tenant_id, kid, route, outcome, requests, cost)
SELECT date_bin('1 day', at, 'epoch') AS at, tenant_id, kid, route, outcome, sum(requests), sum(cost) FROM usage_quarters GROUP BY 1, 2, 3, 4, 5 ORDER BY 1`

	sumFleet = `
INSERT INTO usage_fleet (at, replica, route, outcome, requests, cost)
SELECT date_bin('15 minutes', occurred_at, 'epoch'), replica, route, outcome, sum(requests), sum(cost) FROM usage_events JOIN usage_marks USING (run) GROUP BY 1, 2, 3, 4 ORDER BY 1`

	sumFleetDays = `
INSERT INTO usage_fleet_days (at, replica, route, outcome, requests, cost)
SELECT date_bin('1 day', at, 'epoch'), replica, route, outcome, sum(requests), sum(cost) FROM usage_fleet GROUP BY 1, 2, 3, 4 ORDER BY 1`

	sumTenantHours = `
INSERT INTO usage_tenant_hours (at, tenant_id, admitted, cost, fallback, fallback_cost, interrupted, interrupted_cost, settled, refused, other)
SELECT date_bin('1 hour', at, 'epoch') AS at, tenant_id,
  coalesce(sum(requests) FILTER (WHERE c IN ('admitted', 'fallback')), 0), coalesce(sum(cost) FILTER (WHERE c IN ('admitted', 'fallback', 'settled')), 0),
  coalesce(sum(requests) FILTER (WHERE c = 'fallback'), 0), coalesce(sum(cost) FILTER (WHERE c = 'fallback'), 0),
  coalesce(sum(requests) FILTER (WHERE c = 'interrupted'), 0), coalesce(sum(cost) FILTER (WHERE c = 'interrupted'), 0),
  coalesce(sum(cost) FILTER (WHERE c = 'settled'), 0), coalesce(sum(requests) FILTER (WHERE c = 'refused'), 0), coalesce(sum(requests) FILTER (WHERE c = 'other'), 0)
FROM usage_quarters, LATERAL usage_class(outcome) c GROUP BY 1, 2 ORDER BY 1`

	sumTenantDays = `
INSERT INTO usage_tenant_days (at, tenant_id, admitted, cost, fallback, fallback_cost, interrupted, interrupted_cost, settled, refused, other)
SELECT date_bin('1 day', at, 'epoch') AS at, tenant_id, sum(admitted), sum(cost), sum(fallback), sum(fallback_cost), sum(interrupted), sum(interrupted_cost), sum(settled), sum(refused), sum(other)
FROM usage_tenant_hours GROUP BY 1, 2 ORDER BY 1`

	seedIntake = `WITH i AS (UPDATE usage_intake SET ingest = $1, updated_at = now()) UPDATE usage_rollup SET ingest = $1, updated_at = now()`
)
