-- name: InsertBulkJob :one
-- A taken idempotency key of the same author is a unique violation.
INSERT INTO bulk_jobs (id, kind, state, name, reason, selection, author, author_id, author_role, author_via, idempotency_key, lease_owner, lease_until, created_at)
VALUES (@id, @kind, @state, @name, @reason, @selection, @author, @author_id, @author_role, @author_via, sqlc.narg('idempotency_key'), @lease_owner,
  sqlc.narg('lease_until'), @created_at)
RETURNING num;

-- name: UpdateBulkJob :exec
UPDATE bulk_jobs SET state = @state, idempotency_key = sqlc.narg('idempotency_key'), input_digest = @input_digest, loaded = @loaded, gathered = @gathered,
  total = @total, unreadable = @unreadable, place = @place, checked = @checked, would_do = @would_do, would_skip = @would_skip, bad = @bad, done = @done,
  failed = @failed, steps = @steps, problem = @problem, lease_owner = @lease_owner, lease_until = sqlc.narg('lease_until'),
  checked_at = sqlc.narg('checked_at'), started_at = sqlc.narg('started_at'), started_by = @started_by, started_by_id = @started_by_id,
  started_role = @started_role, ended_at = sqlc.narg('ended_at'), ended_by = @ended_by
WHERE num = @num;

-- name: GetBulkJob :one
SELECT * FROM bulk_jobs WHERE id = @id;

-- name: LockBulkJob :one
-- The first lock of every change of a job; steps, a start and a cancellation wait for each other here.
SELECT * FROM bulk_jobs WHERE id = @id FOR UPDATE;

-- name: GetBulkJobByKey :one
SELECT * FROM bulk_jobs WHERE author_id = @author_id AND idempotency_key = @idempotency_key::text;

-- name: ListBulkJobs :many
-- Newest first; the cursor is the last row's (created_at, id), which never change.
SELECT * FROM bulk_jobs
WHERE (@state::text = '' OR state = @state) AND (@kind::text = '' OR kind = @kind)
  AND (@after_id::text = '' OR (created_at, id) < (@after_at::timestamptz, @after_id::text))
ORDER BY created_at DESC, id DESC LIMIT @max_rows;

-- name: ClaimBulkJob :one
-- The job that waited longest among those that nobody works on; whoever has its lease works on it.
UPDATE bulk_jobs SET lease_owner = @owner, lease_until = @until
WHERE num = (
  SELECT b.num FROM bulk_jobs b WHERE b.state IN ('checking', 'running') AND (b.lease_until IS NULL OR b.lease_until <= @now)
  ORDER BY b.lease_until NULLS FIRST, b.num LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING *;

-- name: PlanChecksOnce :exec
-- For the rest of the transaction. The console's connections plan each statement for its values; so they
-- would also plan what a foreign key asks, anew for each row, which takes more time than all else about it.
SELECT set_config('plan_cache_mode', 'auto', true);

-- name: CopyBulkRows :copyfrom
INSERT INTO bulk_rows (job, line, subject, object_id, tenant, name, environment, digest, scopes, expires_at, plan, time_zone, note)
VALUES (@job, @line, @subject, @object_id, @tenant, @name, @environment, @digest, @scopes, @expires_at, @plan, @time_zone, @note);

-- name: CopyBulkMarks :copyfrom
INSERT INTO bulk_marks (job, line, outcome, message, unreadable) VALUES (@job, @line, @outcome, @message, @unreadable);

-- name: GetBulkSpan :one
-- The next rows of a job: how many, and the last one's line.
SELECT coalesce(max(line), 0)::bigint AS through, count(*) AS rows
FROM (SELECT line FROM bulk_rows WHERE job = @job AND line > @after ORDER BY line LIMIT @max_rows) AS next;

-- name: ListBulkSubjects :many
-- Of a span, those without a mark or all of them.
SELECT r.line, r.subject FROM bulk_rows r
WHERE r.job = @job AND r.line > @after AND r.line <= @through
  AND (@marked::boolean OR NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line))
ORDER BY r.line;

-- name: ListMarkedBulkRows :many
-- Rows with one outcome, by line.
SELECT r.line, r.subject, r.name, m.outcome, m.message FROM bulk_marks m JOIN bulk_rows r ON r.job = m.job AND r.line = m.line
WHERE m.job = @job AND m.outcome = @outcome AND m.line > @after
ORDER BY m.line LIMIT @max_rows;

-- name: ListBulkRows :many
-- Rows in a span of lines, by line; those without a mark alone when @unmarked.
SELECT r.line, r.subject, r.name, r.note, coalesce(m.outcome, '') AS outcome, coalesce(m.message, '') AS message
FROM bulk_rows r LEFT JOIN bulk_marks m ON m.job = r.job AND m.line = r.line
WHERE r.job = @job AND r.line > @after AND r.line <= @through AND (NOT @unmarked::boolean OR m.line IS NULL)
ORDER BY r.line LIMIT @max_rows;

-- name: CountBulkMarks :many
-- Of a span, by outcome.
SELECT outcome, count(*) AS rows FROM bulk_marks WHERE job = @job AND line > @after AND line <= @through GROUP BY outcome ORDER BY outcome;

-- name: ClearBulkMarks :exec
-- Before a span is checked anew. What cannot be read stays so.
DELETE FROM bulk_marks WHERE job = @job AND line > @after AND line <= @through AND NOT unreadable;

-- name: CountBulkPlans :many
-- On which plans the tenants of a change of plan were when it was gathered.
SELECT plan, count(*) AS tenants FROM bulk_rows WHERE job = @job GROUP BY plan ORDER BY plan;

-- name: GetOldBulkJob :one
-- A job that ended long ago, whose rows are still there.
SELECT num FROM bulk_jobs WHERE rows_kept AND ended_at < @before::timestamptz ORDER BY ended_at LIMIT 1;

-- name: DeleteBulkMarks :execrows
DELETE FROM bulk_marks AS d WHERE d.job = @job AND d.line IN (SELECT m.line FROM bulk_marks m WHERE m.job = @job ORDER BY m.line LIMIT @max_rows);

-- name: DeleteBulkRows :execrows
DELETE FROM bulk_rows AS d WHERE d.job = @job AND d.line IN (SELECT r.line FROM bulk_rows r WHERE r.job = @job ORDER BY r.line LIMIT @max_rows);

-- name: ForgetBulkRows :exec
-- The job itself is history and stays.
UPDATE bulk_jobs SET rows_kept = false WHERE num = @num;

-- name: ShareBulkTenants :many
-- Tenants that a span of an import of keys names; they keep their state meanwhile.
SELECT t.id FROM tenants t
WHERE t.id IN (SELECT r.tenant FROM bulk_rows r WHERE r.job = @job AND r.line > @after AND r.line <= @through)
   OR t.external_id IN (SELECT r.tenant FROM bulk_rows r WHERE r.job = @job AND r.line > @after AND r.line <= @through) AND t.state <> 'deleted'
ORDER BY t.id FOR SHARE;

-- name: LockBulkTenants :many
SELECT t.id FROM tenants t WHERE t.id IN (SELECT r.subject FROM bulk_rows r WHERE r.job = @job AND r.line > @after AND r.line <= @through)
ORDER BY t.id FOR UPDATE;

-- name: LockBulkCredentials :many
-- Those whose keys a span changes, in one order.
SELECT c.id FROM credentials c WHERE c.id IN (SELECT r.object_id FROM bulk_rows r WHERE r.job = @job AND r.line > @after AND r.line <= @through)
ORDER BY c.id FOR UPDATE;

-- name: MarkKeyImports :exec
-- What keeps rows of a span from being imported, and which are there already.
INSERT INTO bulk_marks (job, line, outcome, message)
SELECT v.job, v.line, CASE WHEN v.there THEN 'would-skip' ELSE @unfit::text END, CASE WHEN v.there THEN 'The tenant has this key already.' ELSE v.problem END
FROM (
  SELECT r.job, r.line, coalesce(k.tenant_id = coalesce(ti.id, te.id) AND k.digest = 'sha256:' || encode(r.digest, 'hex'), false) AS there,
    CASE
      WHEN coalesce(ti.id, te.id) IS NULL THEN 'tenant: There is no tenant with this id or external id.'
      WHEN same.line IS NOT NULL THEN 'kid: Line ' || same.line || ' has the same kid.'
      WHEN twin.line IS NOT NULL THEN 'digest: Line ' || twin.line || ' has the same digest.'
      WHEN k.kid IS NOT NULL THEN 'kid: There is another key with this kid.'
      WHEN d.kid IS NOT NULL THEN 'digest: The key ' || d.kid || ' has this digest already.'
      WHEN r.expires_at <= @now THEN 'expires_at: This must lie in the future.'
      ELSE '' END AS problem
  FROM bulk_rows r
  LEFT JOIN tenants ti ON ti.id = r.tenant AND ti.state <> 'deleted'
  LEFT JOIN tenants te ON te.external_id = r.tenant AND te.state <> 'deleted'
  LEFT JOIN key_versions k ON k.kid = r.subject
  LEFT JOIN key_versions d ON d.digest = 'sha256:' || encode(r.digest, 'hex')
  LEFT JOIN LATERAL (SELECT min(o.line) AS line FROM bulk_rows o WHERE o.job = r.job AND o.subject = r.subject AND o.subject <> '' AND o.line < r.line) same ON true
  LEFT JOIN LATERAL (SELECT min(o.line) AS line FROM bulk_rows o WHERE o.job = r.job AND o.digest = r.digest AND o.line < r.line) twin ON true
  WHERE r.job = @job AND r.line > @after AND r.line <= @through
    AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line)
) v
WHERE v.there OR v.problem <> '';

-- name: ImportCredentials :exec
INSERT INTO credentials (id, tenant_id, name, environment, scopes, expires_at, created_at)
SELECT r.object_id, coalesce(ti.id, te.id), r.name, r.environment, r.scopes, r.expires_at, @now
FROM bulk_rows r
LEFT JOIN tenants ti ON ti.id = r.tenant AND ti.state <> 'deleted'
LEFT JOIN tenants te ON te.external_id = r.tenant AND te.state <> 'deleted'
WHERE r.job = @job AND r.line > @after AND r.line <= @through
  AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line);

-- name: ImportKeyVersions :many
INSERT INTO key_versions (kid, credential_id, tenant_id, digest, state, seq, created_at, activated_at, idle_since, not_after)
SELECT r.subject, c.id, c.tenant_id, 'sha256:' || encode(r.digest, 'hex'), 'active', 1, @now, @now, @now, r.expires_at
FROM bulk_rows r JOIN credentials c ON c.id = r.object_id
WHERE r.job = @job AND r.line > @after AND r.line <= @through
  AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line)
RETURNING kid;

-- name: MarkTenantImports :exec
-- What keeps rows of a span from being imported, and which are there already. No @plans: any will do.
INSERT INTO bulk_marks (job, line, outcome, message)
SELECT v.job, v.line, CASE WHEN v.there THEN 'would-skip' ELSE @unfit::text END, CASE WHEN v.there THEN 'There is such a tenant already.' ELSE v.problem END
FROM (
  SELECT r.job, r.line, coalesce(te.name = r.name AND te.plan = r.plan AND te.time_zone = r.time_zone, false) AS there,
    CASE
      WHEN same.line IS NOT NULL THEN 'external_id: Line ' || same.line || ' has the same external id.'
      WHEN te.id IS NOT NULL THEN 'external_id: The tenant ' || te.id || ' has this external id.'
      WHEN cardinality(@plans::text[]) > 0 AND NOT r.plan = ANY (@plans::text[])
        THEN 'plan: The policy in force has no such plan; it has ' || array_to_string(@plans::text[], ', ') || '.'
      ELSE '' END AS problem
  FROM bulk_rows r
  LEFT JOIN tenants te ON te.external_id = r.subject AND te.state <> 'deleted'
  LEFT JOIN LATERAL (SELECT min(o.line) AS line FROM bulk_rows o WHERE o.job = r.job AND o.subject = r.subject AND o.subject <> '' AND o.line < r.line) same ON true
  WHERE r.job = @job AND r.line > @after AND r.line <= @through
    AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line)
) v
WHERE v.there OR v.problem <> '';

-- name: ImportTenants :many
INSERT INTO tenants (id, name, external_id, plan, time_zone, state, reason, seq, created_at, updated_at)
SELECT r.object_id, r.name, nullif(r.subject, ''), r.plan, r.time_zone, 'active', '', 1, @now, @now
FROM bulk_rows r
WHERE r.job = @job AND r.line > @after AND r.line <= @through
  AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line)
RETURNING id;

-- name: GetBulkKeySpan :one
-- The next versions there are, whatever a selection asks for: what bounds one step of gathering.
SELECT coalesce(max(kid), '')::text AS through, count(*) AS rows FROM (SELECT kid FROM key_versions WHERE kid > @after ORDER BY kid LIMIT @max_rows) AS next;

-- name: ListBulkKeys :many
-- Live versions that a selection asks for.
SELECT v.kid, v.credential_id, v.tenant_id, v.created_at, v.not_after, c.name, c.environment
FROM key_versions v JOIN credentials c ON c.id = v.credential_id JOIN tenants t ON t.id = v.tenant_id
WHERE v.kid > @after AND v.kid <= @through AND v.state IN ('active', 'retiring', 'suspended')
  AND (@plan::text = '' OR t.plan = @plan) AND (@environment::text = '' OR c.environment = @environment)
  AND (cardinality(@tenants::text[]) = 0 OR v.tenant_id = ANY (@tenants::text[]))
  AND (cardinality(@kids::text[]) = 0 OR v.kid = ANY (@kids::text[]))
  AND (sqlc.narg('created_before')::timestamptz IS NULL OR v.created_at <= sqlc.narg('created_before')::timestamptz)
ORDER BY v.kid;

-- name: GetBulkTenantSpan :one
SELECT coalesce(max(id), '')::text AS through, count(*) AS rows FROM (SELECT id FROM tenants WHERE id > @after ORDER BY id LIMIT @max_rows) AS next;

-- name: ListBulkTenants :many
-- Tenants that a selection asks for.
SELECT id, name, plan FROM tenants
WHERE id > @after AND id <= @through AND state <> 'deleted' AND (@plan::text = '' OR plan = @plan)
  AND (cardinality(@tenants::text[]) = 0 OR id = ANY (@tenants::text[]))
ORDER BY id;

-- name: MarkKeyEnds :exec
-- Keys of a span that have ended already, or whose rotation is running: that one decides when they end.
INSERT INTO bulk_marks (job, line, outcome, message)
SELECT r.job, r.line, CASE WHEN v.ended_at IS NOT NULL THEN 'would-skip' ELSE @unfit::text END,
  CASE WHEN v.ended_at IS NOT NULL THEN 'It is ' || v.state || ' already.' ELSE 'A rotation of its credential is running; end or cancel that first.' END
FROM bulk_rows r JOIN key_versions v ON v.kid = r.subject LEFT JOIN rotations o ON o.credential_id = v.credential_id AND o.state = 'overlap'
WHERE r.job = @job AND r.line > @after AND r.line <= @through AND (v.ended_at IS NOT NULL OR o.id IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line);

-- name: MarkKeyExpiries :exec
-- Keys of a span that expire then already, or earlier when they are not to live longer.
INSERT INTO bulk_marks (job, line, outcome, message)
SELECT r.job, r.line, 'would-skip', 'It expires ' || CASE WHEN v.not_after = @expires_at THEN 'then' ELSE 'earlier' END || ' already.'
FROM bulk_rows r JOIN key_versions v ON v.kid = r.subject
WHERE r.job = @job AND r.line > @after AND r.line <= @through
  AND (v.not_after = @expires_at OR v.not_after < @expires_at AND NOT @extend::boolean)
  AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line);

-- name: RevokeBulkKeys :many
UPDATE key_versions v SET state = 'revoked', resume_state = NULL, seq = v.seq + 1, revoked_at = @now::timestamptz, revoke_reason = @category::text, ended_at = @now::timestamptz
FROM bulk_rows r
WHERE r.job = @job AND r.line > @after AND r.line <= @through AND v.kid = r.subject
  AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line)
RETURNING v.kid;

-- name: ExpireBulkKeys :many
UPDATE key_versions v SET not_after = @expires_at::timestamptz, seq = v.seq + 1
FROM bulk_rows r
WHERE r.job = @job AND r.line > @after AND r.line <= @through AND v.kid = r.subject
  AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line)
RETURNING v.kid;

-- name: ExpireBulkCredentials :exec
-- A later rotation issues no key that outlives it.
UPDATE credentials c SET expires_at = @expires_at::timestamptz
FROM bulk_rows r
WHERE r.job = @job AND r.line > @after AND r.line <= @through AND c.id = r.object_id
  AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line);

-- name: MarkPlanChanges :exec
-- Tenants of a span that are gone, or are on the plan already.
INSERT INTO bulk_marks (job, line, outcome, message)
SELECT r.job, r.line, CASE WHEN t.state = 'deleted' THEN @unfit::text ELSE 'would-skip' END,
  CASE WHEN t.state = 'deleted' THEN 'The tenant has been deleted.' ELSE 'It is on this plan already.' END
FROM bulk_rows r JOIN tenants t ON t.id = r.subject
WHERE r.job = @job AND r.line > @after AND r.line <= @through AND (t.state = 'deleted' OR t.plan = @to_plan)
  AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line);

-- name: ChangeBulkPlans :many
UPDATE tenants t SET plan = @to_plan, seq = t.seq + 1, updated_at = @now
FROM bulk_rows r
WHERE r.job = @job AND r.line > @after AND r.line <= @through AND t.id = r.subject
  AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line)
RETURNING t.id;

-- name: MarkTenantMoves :exec
-- Tenants of a span that are not in the state that they are to leave.
INSERT INTO bulk_marks (job, line, outcome, message)
SELECT r.job, r.line, CASE WHEN t.state = @to_state::text THEN 'would-skip' ELSE @unfit::text END,
  CASE WHEN t.state = @to_state THEN 'It is ' || t.state || ' already.' ELSE 'The tenant is ' || t.state || '.' END
FROM bulk_rows r JOIN tenants t ON t.id = r.subject
WHERE r.job = @job AND r.line > @after AND r.line <= @through AND t.state <> @from_state::text
  AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line);

-- name: MoveBulkTenants :many
UPDATE tenants t SET state = @to_state, reason = CASE WHEN @to_state = 'suspended' THEN @reason::text ELSE '' END, seq = t.seq + 1, updated_at = @now
FROM bulk_rows r
WHERE r.job = @job AND r.line > @after AND r.line <= @through AND t.id = r.subject AND t.state = @from_state
  AND NOT EXISTS (SELECT 1 FROM bulk_marks m WHERE m.job = r.job AND m.line = r.line)
RETURNING t.id;
