-- name: InsertWriter :exec
-- Somebody's first save, which the audit trail tells at once.
INSERT INTO draft_writers (draft_id, actor_id, actor, role, via, ip, request_id, logged_at)
VALUES (@draft_id, @actor_id, @actor, @role, @via, @ip, @request_id, @logged_at)
ON CONFLICT (draft_id, actor_id) DO UPDATE SET actor = excluded.actor, role = excluded.role, via = excluded.via, ip = excluded.ip,
  request_id = excluded.request_id, logged_at = excluded.logged_at, untold = 0, before = NULL;

-- name: AddSave :exec
-- One more save that the audit trail does not tell yet; before is that of the first.
UPDATE draft_writers SET actor = @actor, role = @role, via = @via, ip = @ip, request_id = @request_id, untold = untold + 1,
  before = coalesce(before, @before)
WHERE draft_id = @draft_id AND actor_id = @actor_id;

-- name: ListWriters :many
SELECT * FROM draft_writers WHERE draft_id = @draft_id ORDER BY actor_id;

-- name: TellSaves :exec
-- The audit trail tells them now.
UPDATE draft_writers SET untold = 0, before = NULL, logged_at = @now WHERE draft_id = @draft_id AND actor_id = @actor_id;

-- name: ListUntoldDrafts :many
-- Drafts with saves that have waited since before.
SELECT DISTINCT draft_id FROM draft_writers WHERE untold > 0 AND logged_at < @before ORDER BY draft_id LIMIT @max_rows;

-- name: InsertComment :exec
INSERT INTO draft_comments (id, draft_id, author_id, author, body, created_at)
VALUES (@id, @draft_id, @author_id, @author, @body, @created_at);

-- name: ListComments :many
-- The oldest first.
SELECT * FROM draft_comments WHERE draft_id = @draft_id ORDER BY created_at, id LIMIT @max_rows;

-- name: DeleteComments :exec
DELETE FROM draft_comments WHERE draft_id = @draft_id;

-- name: PutApproval :exec
INSERT INTO draft_approvals (draft_id, actor_id, actor, digest, base, note, created_at)
VALUES (@draft_id, @actor_id, @actor, @digest, @base, @note, @created_at)
ON CONFLICT (draft_id, actor_id) DO UPDATE SET actor = excluded.actor, digest = excluded.digest, base = excluded.base,
  note = excluded.note, created_at = excluded.created_at;

-- name: DeleteApproval :execrows
DELETE FROM draft_approvals WHERE draft_id = @draft_id AND actor_id = @actor_id;

-- name: ListApprovals :many
-- Of one draft, whether or not they still hold.
SELECT * FROM draft_approvals WHERE draft_id = @draft_id ORDER BY created_at, actor_id;

-- name: ListApprovalsOf :many
-- Of one content, on whichever draft.
SELECT * FROM draft_approvals WHERE digest = @digest AND base = @base ORDER BY created_at, actor_id LIMIT 100;

-- name: PutSchedule :exec
INSERT INTO draft_schedules (draft_id, etag, at, note, options, author_id, author, created_at)
VALUES (@draft_id, @etag, @at, @note, @options, @author_id, @author, @created_at)
ON CONFLICT (draft_id) DO UPDATE SET etag = excluded.etag, at = excluded.at, note = excluded.note, options = excluded.options,
  author_id = excluded.author_id, author = excluded.author, created_at = excluded.created_at, suspended = '';

-- name: DeleteSchedule :execrows
DELETE FROM draft_schedules WHERE draft_id = @draft_id;

-- name: GetSchedule :one
SELECT * FROM draft_schedules WHERE draft_id = @draft_id;

-- name: ListSchedules :many
SELECT * FROM draft_schedules ORDER BY at, draft_id LIMIT @max_rows;

-- name: ListDueSchedules :many
-- Those whose time has come, and those that will not happen any more: the draft or its base is another one by now.
SELECT s.* FROM draft_schedules s JOIN drafts d ON d.id = s.draft_id CROSS JOIN policy_head h
WHERE s.suspended = '' AND (s.at <= @now OR s.etag <> d.etag OR d.base <> coalesce(h.number, 0))
ORDER BY s.at, s.draft_id LIMIT @max_rows;

-- name: SuspendSchedule :execrows
-- No row means that it was replaced, suspended or carried out meanwhile.
UPDATE draft_schedules SET suspended = @reason WHERE draft_id = @draft_id AND created_at = @created_at AND suspended = '';

-- name: InsertReview :exec
INSERT INTO policy_reviews (version, author_id, author, reason, missing, created_at)
VALUES (@version, @author_id, @author, @reason, @missing, @created_at);

-- name: LockReview :one
SELECT * FROM policy_reviews WHERE version = @version FOR UPDATE;

-- name: ListReviews :many
-- Open ones first, then the newest.
SELECT * FROM policy_reviews WHERE (NOT @open_only::boolean OR closed_at IS NULL)
ORDER BY (closed_at IS NULL) DESC, version DESC LIMIT @max_rows;

-- name: CountOpenReviews :one
SELECT count(*) FROM policy_reviews WHERE closed_at IS NULL;

-- name: CloseReview :exec
UPDATE policy_reviews SET closed_id = @closed_id, closed_by = @closed_by, closed_at = @closed_at, note = @note WHERE version = @version;

-- name: InsertTrial :exec
INSERT INTO trials (id, draft_id, digest, against, from_at, to_at, state, author_id, author, created_at, seen_at)
VALUES (@id, @draft_id, @digest, @against, @from_at, @to_at, 'running', @author_id, @author, @created_at, @created_at);

-- name: SeeTrial :exec
UPDATE trials SET progress = @progress, seen_at = @now WHERE id = @id AND state = 'running';

-- name: FinishTrial :exec
-- What has ended stays as it is.
UPDATE trials SET state = @state, progress = @progress, problem = @problem, result = sqlc.narg('result'), seen_at = @now
WHERE id = @id AND state = 'running';

-- name: GetTrial :one
SELECT * FROM trials WHERE id = @id;

-- name: ListTrials :many
-- The newest first, without results.
SELECT id, draft_id, digest, against, from_at, to_at, state, progress, problem, author_id, author, created_at, seen_at
FROM trials WHERE draft_id = @draft_id ORDER BY created_at DESC, id DESC LIMIT @max_rows;

-- name: NewestTrial :one
-- Of one content of one draft.
SELECT * FROM trials WHERE draft_id = @draft_id AND digest = @digest ORDER BY created_at DESC, id DESC LIMIT 1;

-- name: DeleteOldTrials :exec
DELETE FROM trials WHERE created_at < @before::timestamptz;

-- name: GetSetting :one
SELECT value FROM settings WHERE name = @name;

-- name: PutSetting :exec
INSERT INTO settings (name, value, updated_at) VALUES (@name, @value, @now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at;

-- name: CountTenantsByPlan :many
SELECT plan, count(*) AS tenants FROM tenants WHERE state <> 'deleted' GROUP BY plan;

-- name: ListTenantPlans :many
SELECT id, plan FROM tenants WHERE id = ANY (@ids::text[]);

-- name: FindTenant :one
-- By id, else by external id.
SELECT * FROM tenants WHERE state <> 'deleted' AND (id = @ref OR external_id = @ref) ORDER BY (id = @ref) DESC LIMIT 1;
