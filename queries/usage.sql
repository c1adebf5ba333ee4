-- name: LockUsageIntake :one
-- Makes this transaction the only one that takes events in.
SELECT ingest FROM usage_intake WHERE one FOR UPDATE;

-- name: SetUsageIngest :exec
UPDATE usage_intake SET ingest = @ingest, updated_at = @now::timestamptz WHERE one;

-- name: NextUsageCorrection :one
UPDATE usage_intake SET corrections = corrections + 1 WHERE one RETURNING corrections;

-- name: CountUnreadableUsage :exec
UPDATE usage_intake SET unreadable = unreadable + @batches WHERE one;

-- name: ListUsageMarks :many
-- Of some boots of replicas.
SELECT m.* FROM usage_marks m JOIN (SELECT unnest(@replicas::text[]) AS replica, unnest(@boots::text[]) AS boot) asked
  ON m.replica = asked.replica AND m.boot = asked.boot ORDER BY m.run;

-- name: AddUsageMark :one
INSERT INTO usage_marks (replica, boot, through, first_at, updated_at) VALUES (@replica, @boot, @through, @now, @now) RETURNING *;

-- name: SaveUsageMark :exec
UPDATE usage_marks SET seq = @seq, ahead = @ahead, gap_since = sqlc.narg('gap_since'), through = @through, final = @final, updated_at = @now WHERE run = @run;

-- name: ListOpenUsageGaps :many
SELECT * FROM usage_gaps WHERE run = ANY(@runs::integer[]) AND missing > 0 ORDER BY run, first_seq;

-- name: AddUsageGap :one
INSERT INTO usage_gaps (run, first_seq, last_seq, missing, after_at, noted_at) VALUES (@run, @first_seq, @last_seq, @missing, @after_at, @now) RETURNING id;

-- name: FillUsageGap :exec
UPDATE usage_gaps SET missing = @missing::bigint, filled = @filled, filled_at = CASE WHEN @missing::bigint = 0 THEN @now::timestamptz END WHERE id = @id;

-- name: ListStaleUsageGaps :many
-- Boots that wait for numbers which nobody has told for long.
SELECT * FROM usage_marks WHERE gap_since < @before AND updated_at < @heard_before ORDER BY run LIMIT 100;

-- name: CopyUsageEvents :copyfrom
INSERT INTO usage_events (occurred_at, ingest, seq, requests, cost, run, tenant_id, kid, route, outcome)
VALUES (@occurred_at, @ingest, @seq, @requests, @cost, @run, @tenant_id, @kid, @route, @outcome);

-- name: AddUsageEvents :many
-- The same for rows that may be there; it tells which were not.
INSERT INTO usage_events (occurred_at, ingest, seq, requests, cost, run, tenant_id, kid, route, outcome)
SELECT unnest(@occurred_ats::timestamptz[]), @ingest, unnest(@seqs::bigint[]), unnest(@requests::bigint[]), unnest(@costs::bigint[]), unnest(@runs::integer[]),
  unnest(@tenants::text[]), unnest(@kids::text[]), unnest(@routes::text[]), unnest(@outcomes::text[])
ON CONFLICT (occurred_at, run, seq) DO NOTHING RETURNING run, seq;

-- name: ListKnownTenants :many
SELECT id FROM tenants WHERE id = ANY(@ids::text[]) ORDER BY id;

-- name: ListUsageMonths :many
-- Partitions of months, and months that were taken out and not removed yet.
SELECT to_char(month, 'YYYY-MM-DD')::text AS month, attached::boolean AS attached FROM usage_months() ORDER BY month;

-- name: MakeUsageMonth :one
SELECT usage_make_month((@month::text)::date)::boolean AS made;

-- name: DetachUsageMonth :one
SELECT usage_detach_month((@month::text)::date)::boolean AS detached;

-- name: DropUsageMonth :one
SELECT usage_drop_month((@month::text)::date)::boolean AS dropped;

-- name: CountStrayUsage :one
-- Events that no month is there for, up to 100 000.
SELECT count(*) FROM (SELECT 1 FROM usage_events_default LIMIT 100000) AS stray;

-- name: TidyUsageDefault :one
SELECT usage_tidy_default()::bigint AS moved;

-- name: TryUsageJob :one
-- One job at a time that changes partitions, until the transaction ends.
SELECT pg_try_advisory_xact_lock(7234014)::boolean AS got;

-- name: HoldUsage :execrows
-- Holds what the ledger did not take; the same event is held once.
INSERT INTO usage_quarantine (reason, detail, replica, boot, seq, event, body, events, received_at)
VALUES (@reason, @detail, @replica, @boot, @seq, sqlc.narg('event'), sqlc.narg('body'), @events, @now) ON CONFLICT DO NOTHING;

-- name: ListHeldUsage :many
SELECT id, reason, detail, replica, boot, seq, event, events, received_at, state, decided_by, decided_why, decided_at FROM usage_quarantine
WHERE state = @state AND (@before::bigint = 0 OR id < @before) ORDER BY id DESC LIMIT @max_rows;

-- name: LockHeldUsage :many
SELECT id, reason, detail, replica, boot, seq, event, events, received_at, state, decided_by, decided_why, decided_at FROM usage_quarantine
WHERE id = ANY(@ids::bigint[]) AND state = 'held' ORDER BY id FOR UPDATE;

-- name: DecideHeldUsage :exec
UPDATE usage_quarantine SET state = @state, decided_by = @decided_by, decided_why = @why, decided_at = @now::timestamptz WHERE id = ANY(@ids::bigint[]);

-- name: CountHeldUsage :one
SELECT coalesce(sum(events) FILTER (WHERE event IS NOT NULL), 0)::bigint AS events, count(*) FILTER (WHERE event IS NULL) AS batches FROM usage_quarantine WHERE state = 'held';

-- name: ListUsageEvents :many
-- A page in the order in which events were taken in, of what lies among the next @scan rows;
-- the last row of those comes in any case, so that a reader knows how far it is.
WITH scan AS MATERIALIZED (
  SELECT e.*, row_number() OVER (ORDER BY e.ingest, e.run, e.seq) AS n FROM usage_events e
  WHERE e.ingest >= @after_ingest AND (e.ingest, e.run, e.seq) > (@after_ingest, @after_run::integer, @after_seq::bigint)
  ORDER BY e.ingest, e.run, e.seq LIMIT @scan
), picked AS (
  SELECT * FROM scan WHERE (@tenant_id::text = '' OR tenant_id = @tenant_id) AND occurred_at >= @from_at AND occurred_at < @to_at
    AND (NOT @billable::boolean OR outcome IN ('admitted', 'fallback-admitted', 'settled')) ORDER BY n LIMIT @max_rows
)
SELECT p.*, m.replica, m.boot, true::boolean AS wanted, 0::bigint AS scanned FROM picked p JOIN usage_marks m USING (run)
UNION ALL
SELECT s.*, '', '', false::boolean, s.n FROM (SELECT * FROM scan ORDER BY n DESC LIMIT 1) s
ORDER BY n, wanted;

-- name: GetUsageState :one
SELECT i.ingest, i.unreadable, r.ingest AS rolled FROM usage_intake i, usage_rollup r;

-- name: ListUsageRuns :many
SELECT * FROM usage_marks WHERE updated_at >= @since OR NOT final AND updated_at >= @open_since ORDER BY updated_at DESC, run LIMIT 1000;

-- name: ListUsageGaps :many
SELECT g.*, m.replica, m.boot FROM usage_gaps g JOIN usage_marks m USING (run) ORDER BY g.noted_at DESC, g.id DESC LIMIT 100;

-- name: UsageSince :one
-- When the first batch of any replica came; far in the future when none did.
SELECT coalesce(min(first_at), '9999-01-01T00:00:00Z')::timestamptz AS since FROM usage_marks WHERE replica <> @own;

-- name: CountMissingUsage :one
-- A forged number can leave a gap of any size.
SELECT least(coalesce(sum(missing), 0), 9007199254740991)::bigint AS missing FROM usage_gaps WHERE missing > 0;

-- name: ListClosedAfter :many
-- Closed periods of some tenants that end after a time.
SELECT id, tenant_id, from_at, to_at FROM usage_periods WHERE to_at > @after AND tenant_id = ANY(@tenant_ids::text[]) ORDER BY tenant_id, from_at;

-- name: LastClosedUsage :one
-- The last end of a closed period; the epoch when there is none.
SELECT coalesce(max(to_at), 'epoch')::timestamptz AS to_at FROM usage_periods;

-- name: AddUsageAdjustment :exec
INSERT INTO usage_adjustments (period_id, ingest, kid, route, outcome, requests, cost, events, first_at, last_at, noted_at)
VALUES (@period_id, @ingest, @kid, @route, @outcome, @requests, @cost, @events, @first_at, @last_at, @now);

-- name: AddUsagePeriod :exec
INSERT INTO usage_periods (id, tenant_id, from_at, to_at, closed_at, closed_by, note, ingest,
  admitted, cost, fallback, fallback_cost, interrupted, interrupted_cost, settled, refused, other)
VALUES (@id, @tenant_id, @from_at, @to_at, @closed_at, @closed_by, @note, @ingest,
  @admitted, @cost, @fallback, @fallback_cost, @interrupted, @interrupted_cost, @settled, @refused, @other);

-- name: CountOverlappingPeriods :one
SELECT count(*) FROM usage_periods WHERE tenant_id = @tenant_id AND from_at < @to_at AND to_at > @from_at;

-- name: ListUsagePeriods :many
-- With what came later, by class.
SELECT p.*, coalesce(a.admitted, 0)::bigint AS late_admitted, coalesce(a.cost, 0)::bigint AS late_cost, coalesce(a.fallback, 0)::bigint AS late_fallback,
  coalesce(a.fallback_cost, 0)::bigint AS late_fallback_cost, coalesce(a.interrupted, 0)::bigint AS late_interrupted, coalesce(a.interrupted_cost, 0)::bigint AS late_interrupted_cost,
  coalesce(a.settled, 0)::bigint AS late_settled, coalesce(a.refused, 0)::bigint AS late_refused, coalesce(a.other, 0)::bigint AS late_other, coalesce(a.events, 0)::bigint AS late_events
FROM usage_periods p LEFT JOIN LATERAL (
  SELECT sum(requests) FILTER (WHERE c IN ('admitted', 'fallback')) AS admitted, sum(a.cost) FILTER (WHERE c IN ('admitted', 'fallback', 'settled')) AS cost,
    sum(requests) FILTER (WHERE c = 'fallback') AS fallback, sum(a.cost) FILTER (WHERE c = 'fallback') AS fallback_cost,
    sum(requests) FILTER (WHERE c = 'interrupted') AS interrupted, sum(a.cost) FILTER (WHERE c = 'interrupted') AS interrupted_cost,
    sum(a.cost) FILTER (WHERE c = 'settled') AS settled, sum(requests) FILTER (WHERE c = 'refused') AS refused, sum(requests) FILTER (WHERE c = 'other') AS other, sum(a.events) AS events
  FROM usage_adjustments a, LATERAL usage_class(a.outcome) c WHERE a.period_id = p.id
) a ON true
WHERE (@tenant_id::text = '' OR p.tenant_id = @tenant_id) AND (@id::text = '' OR p.id = @id)
  AND (@after_id::text = '' OR (p.closed_at, p.id) < (@after_at::timestamptz, @after_id)) ORDER BY p.closed_at DESC, p.id DESC LIMIT @max_rows;

-- name: ListUsageAdjustments :many
SELECT * FROM usage_adjustments WHERE period_id = @period_id ORDER BY ingest DESC, kid, route, outcome LIMIT 1000;
