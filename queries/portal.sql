-- These run as the role headgate_portal, for which one tenant's rows alone exist.
-- Each names the tenant all the same: two locks on one door.

-- name: PortalTenant :one
SELECT id, name, plan, time_zone, state, created_at FROM tenants WHERE id = @tenant_id;

-- name: PortalCredentials :many
SELECT id, tenant_id, name, environment, scopes, expires_at, created_at FROM credentials
WHERE tenant_id = @tenant_id ORDER BY created_at DESC, id DESC LIMIT 1000;

-- name: PortalKeys :many
SELECT v.kid, v.credential_id, v.tenant_id, v.state, v.created_at, v.activated_at, v.retiring_at, v.not_after, v.revoked_at, v.revoke_reason, v.ended_at,
  c.name AS credential_name, c.environment, c.scopes
FROM key_versions v JOIN credentials c ON c.id = v.credential_id
WHERE v.tenant_id = @tenant_id AND c.tenant_id = @tenant_id ORDER BY v.created_at DESC, v.kid DESC LIMIT 5000;

-- name: PortalRotations :many
SELECT r.id, r.credential_id, r.tenant_id, r.old_kid, r.new_kid, r.state, r.reason, r.overlap_seconds, r.old_not_after, r.started_at, r.ends_at, r.ended_at,
  r.end_reason, r.extensions, c.name AS credential_name
FROM rotations r JOIN credentials c ON c.id = r.credential_id
WHERE r.tenant_id = @tenant_id AND c.tenant_id = @tenant_id AND (@id::text = '' OR r.id = @id) AND (NOT @open_only::boolean OR r.state = 'overlap')
ORDER BY r.started_at DESC, r.id DESC LIMIT 200;

-- name: PortalMembers :many
SELECT id, tenant_id, email, external_user, name, role, created_at, joined_at FROM members
WHERE tenant_id = @tenant_id AND disabled_at IS NULL ORDER BY lower(email), external_user, id LIMIT 1000;

-- name: PortalInvitations :many
SELECT id, tenant_id, email, role, invited_by, created_at, expires_at FROM member_invitations
WHERE tenant_id = @tenant_id AND used_at IS NULL AND revoked_at IS NULL AND expires_at > @now ORDER BY created_at DESC, id LIMIT 200;

-- name: PortalAsks :many
SELECT id, tenant_id, limit_id, wanted, factor_milli, until, why, state, member_id, member_name, decided_by, answer, created_at, decided_at FROM asks
WHERE tenant_id = @tenant_id ORDER BY created_at DESC, id DESC LIMIT 200;

-- name: PortalThresholds :many
SELECT id, tenant_id, kind, value, member_id, created_at FROM thresholds WHERE tenant_id = @tenant_id ORDER BY kind, value LIMIT 100;

-- name: PortalKeyUse :many
SELECT kid, first_used_at, last_used_at, last_network, last_agent, refused_at FROM key_use WHERE tenant_id = @tenant_id ORDER BY kid LIMIT 5000;

-- name: PortalKeySources :many
SELECT kid, network, agent, first_seen, last_seen, requests, limited, refused FROM key_sources
WHERE tenant_id = @tenant_id AND kid = @kid AND last_seen >= @since ORDER BY last_seen DESC, network, agent LIMIT 100;
