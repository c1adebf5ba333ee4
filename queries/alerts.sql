-- name: InsertAlertRule :exec
INSERT INTO alert_rules (id, name, kind, threshold, for_seconds, channels, enabled, created_at, updated_at)
VALUES (@id, @name, @kind, @threshold, @for_seconds, @channels, @enabled, @created_at, @updated_at);

-- name: UpdateAlertRule :exec
UPDATE alert_rules SET name = @name, threshold = @threshold, for_seconds = @for_seconds, channels = @channels, enabled = @enabled, updated_at = @updated_at
WHERE id = @id;

-- name: DeleteAlertRule :exec
DELETE FROM alert_rules WHERE id = @id;

-- name: LockAlertRule :one
SELECT * FROM alert_rules WHERE id = @id FOR UPDATE;

-- name: ListAlertRules :many
SELECT * FROM alert_rules ORDER BY created_at, id LIMIT 500;

-- name: InsertAlertChannel :exec
INSERT INTO alert_channels (id, tenant_id, name, kind, target, secret, secret_at, enabled, created_at, updated_at)
VALUES (@id, nullif(@tenant_id::text, ''), @name, @kind, @target, @secret, sqlc.narg('secret_at'), @enabled, @created_at, @updated_at);

-- name: UpdateAlertChannel :exec
UPDATE alert_channels SET name = @name, target = @target, secret = @secret, secret_at = sqlc.narg('secret_at'), old_secret = @old_secret,
  old_until = sqlc.narg('old_until'), enabled = @enabled, problem = @problem, updated_at = @updated_at
WHERE id = @id;

-- name: DeleteAlertChannel :exec
-- Rules forget it, too.
WITH forgotten AS (UPDATE alert_rules r SET channels = array_remove(r.channels, @id::text) WHERE @id::text = ANY (r.channels))
DELETE FROM alert_channels c WHERE c.id = @id::text;

-- name: GetAlertChannel :one
SELECT * FROM alert_channels WHERE id = @id;

-- name: LockAlertChannel :one
-- A tenant's own, or, with '', one of the operators'.
SELECT * FROM alert_channels WHERE id = @id AND tenant_id IS NOT DISTINCT FROM nullif(@tenant_id::text, '') FOR UPDATE;

-- name: ListAlertChannels :many
-- A tenant's own, or, with '', those of the operators.
SELECT * FROM alert_channels WHERE tenant_id IS NOT DISTINCT FROM nullif(@tenant_id::text, '') ORDER BY created_at, id LIMIT 200;

-- name: OpenAlert :execrows
-- Nothing when the rule has an open one of this object.
INSERT INTO alerts (id, tenant_id, rule_id, rule_name, kind, object, object_name, value, threshold, words, opened_at, seen_at)
VALUES (@id, nullif(@tenant_id::text, ''), @rule_id, @rule_name, @kind, @object, @object_name, @value, @threshold, @words, @now, @now)
ON CONFLICT (rule_id, object) WHERE resolved_at IS NULL DO NOTHING;

-- name: SeeAlert :exec
UPDATE alerts SET value = @value, threshold = @threshold, words = @words, seen_at = greatest(@now, opened_at) WHERE id = @id AND resolved_at IS NULL;

-- name: TellAlert :execrows
UPDATE alerts SET told_at = @now WHERE id = @id AND told_at IS NULL AND resolved_at IS NULL;

-- name: ResolveAlert :execrows
UPDATE alerts SET resolved_at = greatest(@now, opened_at), resolution = @resolution WHERE id = @id AND resolved_at IS NULL;

-- name: GetAlert :one
SELECT * FROM alerts WHERE id = @id;

-- name: ListOpenAlerts :many
-- All that are open, of operators and of tenants.
SELECT * FROM alerts WHERE resolved_at IS NULL ORDER BY opened_at, id LIMIT @max_rows;

-- name: ListAlerts :many
-- Newest first; the cursor is the last row's (opened_at, id), which never change. Operators' alone with ''.
SELECT * FROM alerts
WHERE tenant_id IS NOT DISTINCT FROM nullif(@tenant_id::text, '') AND (NOT @open_only::boolean OR resolved_at IS NULL)
  AND (@kind::text = '' OR kind = @kind) AND (@object::text = '' OR object = @object)
  AND (@after_id::text = '' OR (opened_at, id) < (@after_at::timestamptz, @after_id::text))
ORDER BY opened_at DESC, id DESC LIMIT @max_rows;

-- name: CountOpenAlerts :one
SELECT count(*) FROM alerts WHERE resolved_at IS NULL AND tenant_id IS NULL;

-- name: DeleteOldAlerts :execrows
-- Some at a time: a statement has two seconds.
DELETE FROM alerts WHERE id IN (SELECT a.id FROM alerts a WHERE a.resolved_at < @before::timestamptz ORDER BY a.resolved_at LIMIT @max_rows);

-- name: InsertAlertSilence :exec
INSERT INTO alert_silences (id, rule_id, object, reason, author_id, author, created_at, ends_at)
VALUES (@id, @rule_id, @object, @reason, @author_id, @author, @created_at, @ends_at);

-- name: EndAlertSilence :execrows
UPDATE alert_silences SET ended_at = @now, ended_by = @ended_by WHERE id = @id AND ended_at IS NULL AND ends_at > @now;

-- name: ListAlertSilences :many
-- Those that hold with live, else the last hundred. More than are made by hand: one that is
-- left out would let messages through.
SELECT * FROM alert_silences WHERE NOT @live::boolean OR ended_at IS NULL AND ends_at > @now ORDER BY ends_at DESC, id LIMIT CASE WHEN @live THEN 1000 ELSE 100 END;

-- name: InsertAlertDelivery :execrows
-- Nothing when this event of this alert has gone to this channel before.
INSERT INTO alert_deliveries (id, tenant_id, channel_id, channel_name, kind, target, alert_id, event, subject, body, next_at, created_at)
VALUES (@id, nullif(@tenant_id::text, ''), @channel_id, @channel_name, @kind, @target, @alert_id, @event, @subject, @body, @now, @now)
ON CONFLICT (alert_id, event, channel_id) WHERE event <> 'alert.test' DO NOTHING;

-- name: ClaimAlertDeliveries :many
-- Takes what is due for a while; a console that dies leaves it to others after that.
-- Of a channel one message at a time goes out, the oldest first. Operators' go first: tenants
-- with receivers that take their time must not hold them up.
UPDATE alert_deliveries SET leased_until = @until, attempts = attempts + 1
WHERE id IN (
  SELECT d.id FROM alert_deliveries d
  WHERE d.state = 'waiting' AND d.next_at <= @now AND (d.leased_until IS NULL OR d.leased_until <= @now)
    AND NOT EXISTS (SELECT 1 FROM alert_deliveries o WHERE o.state = 'waiting' AND o.channel_id = d.channel_id AND o.leased_until > @now)
    AND NOT EXISTS (SELECT 1 FROM alert_deliveries o WHERE o.state = 'waiting' AND o.channel_id = d.channel_id AND o.next_at <= @now AND (o.created_at, o.id) < (d.created_at, d.id))
  ORDER BY d.tenant_id IS NOT NULL, d.next_at, d.id LIMIT @max_rows FOR UPDATE SKIP LOCKED)
RETURNING *;

-- name: FinishAlertDelivery :execrows
-- Fenced by the attempt: an answer that comes after the lease ran out changes nothing
-- of the attempt that followed.
UPDATE alert_deliveries SET state = @state, status = @status, problem = @problem, done_at = @now, leased_until = NULL
WHERE id = @id AND state = 'waiting' AND attempts = @attempts;

-- name: PostponeAlertDelivery :execrows
UPDATE alert_deliveries SET status = @status, problem = @problem, next_at = @next_at, leased_until = NULL
WHERE id = @id AND state = 'waiting' AND attempts = @attempts;

-- name: ReviveAlertDelivery :execrows
-- A dead one is tried anew, under the same id.
UPDATE alert_deliveries SET state = 'waiting', attempts = 0, next_at = @now, leased_until = NULL, done_at = NULL
WHERE id = @id AND state = 'dead' AND tenant_id IS NOT DISTINCT FROM nullif(@tenant_id::text, '');

-- name: ListAlertDeliveries :many
-- Newest first; the cursor is the last row's (created_at, id), which never change. Operators' alone with ''.
SELECT * FROM alert_deliveries
WHERE tenant_id IS NOT DISTINCT FROM nullif(@tenant_id::text, '') AND (@state::text = '' OR state = @state) AND (@channel_id::text = '' OR channel_id = @channel_id)
  AND (@after_id::text = '' OR (created_at, id) < (@after_at::timestamptz, @after_id::text))
ORDER BY created_at DESC, id DESC LIMIT @max_rows;

-- name: CountAlertDeliveries :one
-- What waits, of a channel.
SELECT count(*) FROM alert_deliveries WHERE state = 'waiting' AND channel_id = @channel_id;

-- name: DeleteOldAlertDeliveries :execrows
-- Some at a time: a statement has two seconds.
DELETE FROM alert_deliveries WHERE id IN (SELECT d.id FROM alert_deliveries d WHERE d.done_at < @before::timestamptz ORDER BY d.done_at LIMIT @max_rows);

-- name: ListAllThresholds :many
-- Marks of tenants that are active.
SELECT h.*, t.name AS tenant_name FROM thresholds h JOIN tenants t ON t.id = h.tenant_id WHERE t.state = 'active' ORDER BY h.tenant_id, h.id LIMIT 100000;

-- name: PortalAlertChannels :many
SELECT id, tenant_id, name, kind, target, secret_at, old_until, enabled, problem, created_at, updated_at FROM alert_channels
WHERE tenant_id = @tenant_id::text ORDER BY created_at, id LIMIT 50;

-- name: PortalAlerts :many
SELECT id, tenant_id, rule_id, rule_name, kind, object, object_name, value, threshold, words, opened_at, seen_at, told_at, resolved_at, resolution FROM alerts
WHERE tenant_id = @tenant_id::text ORDER BY opened_at DESC, id DESC LIMIT 50;

-- name: PortalAlertDeliveries :many
SELECT id, tenant_id, channel_id, channel_name, kind, target, alert_id, event, subject, state, attempts, next_at, status, problem, created_at, done_at FROM alert_deliveries
WHERE tenant_id = @tenant_id::text ORDER BY created_at DESC, id DESC LIMIT 50;
