-- name: InsertMember :exec
INSERT INTO members (id, tenant_id, email, external_user, name, role, password_hash, created_at, joined_at)
VALUES (@id, @tenant_id, @email, @external_user, @name, @role, @password_hash, @created_at, sqlc.narg('joined_at'));

-- name: UpdateMember :exec
UPDATE members SET name = @name, role = @role, password_hash = @password_hash, joined_at = sqlc.narg('joined_at'), disabled_at = sqlc.narg('disabled_at')
WHERE tenant_id = @tenant_id AND id = @id;

-- name: GetMember :one
SELECT * FROM members WHERE tenant_id = @tenant_id AND id = @id;

-- name: LockMembers :many
-- All of a tenant that are not removed, so that two who remove each other follow one another.
SELECT * FROM members WHERE tenant_id = @tenant_id AND disabled_at IS NULL ORDER BY id FOR UPDATE;

-- name: ListMembers :many
SELECT * FROM members WHERE tenant_id = @tenant_id AND disabled_at IS NULL ORDER BY lower(email), external_user, id LIMIT 1000;

-- name: GetMemberKnownAs :one
-- By the id of the tenant's own system or, without one, by the address.
SELECT * FROM members WHERE tenant_id = @tenant_id AND disabled_at IS NULL
  AND CASE WHEN @external_user::text <> '' THEN external_user = @external_user ELSE email <> '' AND lower(email) = lower(@email::text) END;

-- name: CountMembers :one
SELECT count(*) FROM members WHERE tenant_id = @tenant_id AND disabled_at IS NULL;

-- name: ListMembersByEmail :many
-- Who may sign in with a password: of one tenant, or of any.
SELECT sqlc.embed(m), t.state AS tenant_state FROM members m JOIN tenants t ON t.id = m.tenant_id
WHERE lower(m.email) = lower(@email) AND m.email <> '' AND m.disabled_at IS NULL AND m.password_hash <> ''
  AND (@tenant_id::text = '' OR m.tenant_id = @tenant_id) AND t.state <> 'deleted'
ORDER BY m.joined_at DESC NULLS LAST, m.id LIMIT 3;

-- name: InsertMemberSession :exec
INSERT INTO member_sessions (hash, member_id, tenant_id, data, ip, user_agent, created_at, seen_at, expires_at)
VALUES (@hash, @member_id, @tenant_id, @data, @ip, @user_agent, @created_at, @seen_at, @expires_at);

-- name: GetMemberSession :one
-- Only of a member who is one still, of a tenant that may use its pages.
SELECT sqlc.embed(s), sqlc.embed(m) FROM member_sessions s
JOIN members m ON m.id = s.member_id AND m.tenant_id = s.tenant_id JOIN tenants t ON t.id = s.tenant_id
WHERE s.hash = @hash AND m.disabled_at IS NULL AND t.state = 'active' AND s.expires_at > @now AND s.seen_at > @idle_since;

-- name: SeeMemberSession :exec
UPDATE member_sessions SET seen_at = @now WHERE hash = @hash;

-- name: SaveMemberSession :exec
-- Never an upsert: a session that was ended stays ended.
UPDATE member_sessions SET data = @data WHERE hash = @hash;

-- name: DeleteMemberSession :exec
DELETE FROM member_sessions WHERE hash = @hash;

-- name: DeleteDeadMemberSessions :exec
DELETE FROM member_sessions WHERE expires_at <= @now OR seen_at <= @idle_since;

-- name: DeleteOldSignInLinks :exec
DELETE FROM sign_in_links WHERE expires_at <= @before;

-- name: InsertInvitation :exec
INSERT INTO member_invitations (id, tenant_id, email, role, secret_hash, invited_by, created_at, expires_at)
VALUES (@id, @tenant_id, @email, @role, @secret_hash, @invited_by, @created_at, @expires_at);

-- name: LockInvitation :one
SELECT * FROM member_invitations WHERE secret_hash = @secret_hash FOR UPDATE;

-- name: GetInvitation :one
SELECT * FROM member_invitations WHERE secret_hash = @secret_hash;

-- name: UseInvitation :execrows
UPDATE member_invitations SET used_at = @now WHERE id = @id AND used_at IS NULL AND revoked_at IS NULL AND expires_at > @now;

-- name: RevokeInvitation :execrows
UPDATE member_invitations SET revoked_at = @now WHERE tenant_id = @tenant_id AND id = @id AND used_at IS NULL AND revoked_at IS NULL;

-- name: ListInvitations :many
-- Those that can still be used.
SELECT * FROM member_invitations WHERE tenant_id = @tenant_id AND used_at IS NULL AND revoked_at IS NULL AND expires_at > @now
ORDER BY created_at DESC, id LIMIT 200;

-- name: InsertSignInLink :exec
INSERT INTO sign_in_links (hash, member_id, tenant_id, made_by, created_at, expires_at)
VALUES (@hash, @member_id, @tenant_id, @made_by, @created_at, @expires_at);

-- name: UseSignInLink :one
-- Once: of several at the same time one gets the row.
UPDATE sign_in_links SET used_at = @now WHERE hash = @hash AND used_at IS NULL AND expires_at > @now RETURNING *;

-- name: InsertAsk :exec
INSERT INTO asks (id, tenant_id, limit_id, wanted, factor_milli, until, why, state, member_id, member_name, decided_by, answer, created_at, decided_at)
VALUES (@id, @tenant_id, @limit_id, @wanted, @factor_milli, sqlc.narg('until'), @why, @state, @member_id, @member_name, @decided_by, @answer, @created_at, sqlc.narg('decided_at'));

-- name: LockAsk :one
SELECT * FROM asks WHERE id = @id FOR UPDATE;

-- name: UpdateAsk :exec
UPDATE asks SET state = @state, decided_by = @decided_by, answer = @answer, decided_at = sqlc.narg('decided_at') WHERE id = @id;

-- name: ListAsks :many
-- Of one tenant or of all, only open ones when wanted; the oldest open first, decided ones after.
SELECT sqlc.embed(a), t.name AS tenant_name FROM asks a JOIN tenants t ON t.id = a.tenant_id
WHERE (@tenant_id::text = '' OR a.tenant_id = @tenant_id) AND (NOT @open_only::boolean OR a.state = 'open')
ORDER BY a.created_at DESC, a.id DESC LIMIT @max_rows;

-- name: CountAsksByRule :one
SELECT count(*) FROM asks WHERE tenant_id = @tenant_id AND decided_by = 'rule' AND state = 'granted' AND created_at > @since;

-- name: CountOpenAsks :one
SELECT count(*) FROM asks WHERE tenant_id = @tenant_id AND state = 'open';

-- name: ListPortalRules :many
SELECT * FROM portal_rules ORDER BY scope LIMIT 1000;

-- name: GetPortalRules :many
-- The narrowest last.
SELECT * FROM portal_rules WHERE scope IN ('', 'plan:' || @plan::text, @tenant_id::text) ORDER BY CASE WHEN scope = '' THEN 0 WHEN scope LIKE 'plan:%' THEN 1 ELSE 2 END;

-- name: SetPortalRules :exec
INSERT INTO portal_rules (scope, rules, updated_at) VALUES (@scope, @rules, @updated_at)
ON CONFLICT (scope) DO UPDATE SET rules = excluded.rules, updated_at = excluded.updated_at;

-- name: DeletePortalRules :exec
DELETE FROM portal_rules WHERE scope = @scope;

-- name: InsertThreshold :exec
INSERT INTO thresholds (id, tenant_id, kind, value, member_id, created_at)
VALUES (@id, @tenant_id, @kind, @value, @member_id, @created_at);

-- name: CountThresholds :one
SELECT count(*) FROM thresholds WHERE tenant_id = @tenant_id;

-- name: DeleteThreshold :execrows
DELETE FROM thresholds WHERE tenant_id = @tenant_id AND id = @id;
