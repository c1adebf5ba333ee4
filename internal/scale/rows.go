package scale

import "fmt"

// What of a number is chosen by it goes by a prime, so that no two choices
// agree: the tenant's state says nothing of its plan or of its name.

//nolint:gochecknoglobals // text; nothing writes to it
var (
	// One in 97 is suspended, one in 61 was deleted; seven in ten are free.
	seedTenants = fmt.Sprintf(`
INSERT INTO tenants (id, name, external_id, plan, time_zone, state, reason, seq, created_at, updated_at)
SELECT %s, initcap(($2::text[])[1 + i * 7 %% 40]) || ' ' || initcap(($3::text[])[1 + i / 40 %% 20]) || ' n' || i, 'cus_' || i,
  CASE WHEN i %% 100 < 5 THEN 'team' WHEN i %% 100 < 30 THEN 'pro' ELSE 'free' END, 'UTC',
  CASE WHEN i %% 97 = 0 THEN 'suspended' WHEN i %% 61 = 0 THEN 'deleted' ELSE 'active' END, '', 1, at, at
FROM (SELECT i::int, now() - i * interval '7 minutes' AS at FROM generate_series(1, $1::int) i) n`, fmt.Sprintf(tenantID, "i"))

	seedCredentials = fmt.Sprintf(`
INSERT INTO credentials (id, tenant_id, name, environment, created_at)
SELECT %s, %s, (ARRAY['worker', 'billing export', 'web', 'mobile app', 'etl', 'partner', 'reports', 'cron', 'edge', 'support desk'])[1 + c %% 10] || ' c' || c,
  CASE WHEN c %% 11 = 0 THEN 'test' ELSE 'live' END, now() - i * interval '7 minutes' + c %% 10 * interval '1 second'
FROM (SELECT c::int, (1 + c / $2::int)::int AS i FROM generate_series(0, $1::int * $2::int - 1) c) n`, fmt.Sprintf(credentialID, "c"), fmt.Sprintf(tenantID, "i"))

	// A version for each credential. One in 89 has been revoked, one in 211 is
	// suspended; one in 53 was rotated, every second of them not to its end.
	seedKeys = fmt.Sprintf(`
INSERT INTO key_versions (kid, credential_id, tenant_id, digest, state, resume_state, seq, created_at, activated_at, retiring_at, not_after, revoked_at, revoke_reason, ended_at)
SELECT substr(md5('k' || v || '-' || c), 1, 4) || v || lpad(c::text, 7, '0'), %s, %s, 'sha256:' || encode(sha256(('d' || v || '-' || c)::bytea), 'hex'),
  state, CASE WHEN state = 'suspended' THEN 'active' END, 1, at, at,
  CASE WHEN state = 'retiring' THEN at + interval '1 hour' END,
  CASE WHEN state = 'retiring' THEN now() + interval '7 days' WHEN c %% 29 = 0 THEN now() + (c %% 60) * interval '1 day' + interval '1 hour' END,
  CASE WHEN state = 'revoked' THEN at + interval '2 hours' END, CASE WHEN state = 'revoked' THEN 'leak' END,
  CASE WHEN state IN ('revoked', 'expired') THEN at + interval '2 hours' END
FROM (
  SELECT c::int, (1 + c / $2::int)::int AS i, v, now() - (1 + c / $2::int) * interval '7 minutes' + (c %% 10 + v * 20) * interval '1 second' AS at,
    CASE WHEN c %% 53 = 0 AND v = 1 THEN CASE WHEN c %% 2 = 0 THEN 'retiring' ELSE 'expired' END
      WHEN c %% 53 <> 0 AND c %% 89 = 0 THEN 'revoked' WHEN c %% 53 <> 0 AND c %% 211 = 0 THEN 'suspended' ELSE 'active' END AS state
  FROM generate_series(0, $1::int * $2::int - 1) c, generate_series(1, 2) v WHERE v = 1 OR c %% 53 = 0
) n`, fmt.Sprintf(credentialID, "c"), fmt.Sprintf(tenantID, "i"))
)

const (
	seedOperators = `
INSERT INTO operators (id, email, name, role, created_at)
VALUES ('opr_aaaaaaaaaaaaaaaa', 'ann@seed.example', 'Ann Rare', 'key-admin', now()), ('opr_bbbbbbbbbbbbbbbb', 'bob@seed.example', 'Bob Often', 'key-admin', now()),
  ('opr_cccccccccccccccc', 'cy@seed.example', 'Cy Mostly', 'key-admin', now())`

	seedRotations = `
INSERT INTO rotations (id, credential_id, tenant_id, old_kid, new_kid, state, reason, overlap_seconds, started_at, ends_at, ended_at, end_reason)
SELECT 'rot_' || substr(f.credential_id, 5), f.credential_id, f.tenant_id, o.kid, f.kid,
  CASE WHEN o.state = 'retiring' THEN 'overlap' ELSE 'completed' END, 'yearly', 604800, f.created_at,
  CASE WHEN o.state = 'retiring' THEN now() + interval '7 days' ELSE f.created_at + interval '7 days' END,
  CASE WHEN o.state = 'retiring' THEN NULL ELSE f.created_at + interval '7 days' END, ''
FROM key_versions o JOIN key_versions f ON f.credential_id = o.credential_id AND f.kid <> o.kid
WHERE o.state IN ('retiring', 'expired') AND f.state = 'active' AND f.created_at > o.created_at`

	// Nine in ten were used, some of them long ago.
	seedUse = `
INSERT INTO key_use (kid, tenant_id, first_used_at, last_used_at, last_network, last_agent)
SELECT kid, tenant_id, created_at, greatest(created_at, now() - (n % 120) * interval '1 day'), '198.51.' || n % 200 || '.0/24', 'python-requests'
FROM (SELECT *, (substr(kid, 6))::int AS n FROM key_versions) v WHERE n % 10 <> 0`

	seedSources = `
INSERT INTO key_sources (kid, tenant_id, network, agent, first_seen, last_seen, requests, limited, refused, used_at)
SELECT kid, tenant_id, '198.51.' || (n + s) % 200 || '.0/24', 'python-requests', at - s * interval '2 days', at - s * interval '1 day', 100 * s + 1, 0, 0, at - s * interval '1 day'
FROM (SELECT kid, tenant_id, (substr(kid, 6))::int AS n, now() - ((substr(kid, 6))::int % 120) * interval '1 day' AS at FROM key_use) u, generate_series(0, 1) s
WHERE n % 3 = 0 OR s = 0`

	seedHours = `
INSERT INTO key_use_hours (kid, hour, requests, limited, refused)
SELECT kid, date_trunc('hour', now()) - h * interval '1 hour', 60, 1, 0 FROM key_use, generate_series(0, 2) h WHERE last_used_at > now() - interval '1 day'`

	seedOverrides = `
INSERT INTO overrides (id, tenant_id, limit_id, kind, rate, burst, reason, author_id, author, created_at, expires_at)
SELECT 'ovr_' || substr(id, 5), id, 'plan.requests', 'override', '600/minute', 60, 'contract', 'opr_aaaaaaaaaaaaaaaa', 'Ann', created_at, now() + interval '30 days'
FROM tenants WHERE state = 'active' AND (substr(external_id, 5))::int % 103 = 0`
)

// The trail is not a chain that could be verified: it only has the shape of one.
//
//nolint:gochecknoglobals // text; nothing writes to it
var seedAudit = fmt.Sprintf(`
INSERT INTO audit_events (seq, at, actor_id, actor, role, via, action, object, object_id, tenant_id, after, ip, request_id, prev_hash, hash)
SELECT head.seq + n, now() - ($1::int - n) * interval '20 seconds',
  CASE WHEN n %% 499 = 0 THEN 'opr_aaaaaaaaaaaaaaaa' WHEN n %% 3 = 0 THEN 'opr_bbbbbbbbbbbbbbbb' ELSE 'opr_cccccccccccccccc' END,
  CASE WHEN n %% 499 = 0 THEN 'Ann Rare' WHEN n %% 3 = 0 THEN 'Bob Often' ELSE 'Cy Mostly' END, 'key-admin', 'console',
  CASE WHEN n %% 997 = 0 THEN 'rotation.cancel' WHEN n %% 5 = 0 THEN 'tenant.update' WHEN n %% 5 = 1 THEN 'key.revoke' ELSE 'credential.create' END,
  CASE WHEN n %% 997 = 0 THEN 'rotation' WHEN n %% 5 = 0 THEN 'tenant' WHEN n %% 5 = 1 THEN 'key' ELSE 'credential' END,
  CASE WHEN n %% 5 = 0 THEN %s ELSE %s END, %s, '{"name": "something", "plan": "free"}', '192.0.2.1', 'seed',
  CASE WHEN n = 1 THEN head.hash ELSE sha256(('a' || n - 1)::bytea) END, sha256(('a' || n)::bytea)
FROM (SELECT n::int, (1 + n::bigint * 7919 %% ($2::int * $3::int) / $3::int)::int AS i, (n::bigint * 7919 %% ($2::int * $3::int))::int AS c FROM generate_series(1, $1::int) n) n,
  (SELECT coalesce(max(seq), 0) AS seq, coalesce((SELECT hash FROM audit_events ORDER BY seq DESC LIMIT 1), decode(repeat('00', 32), 'hex')) AS hash FROM audit_events) head`,
	fmt.Sprintf(tenantID, "i"), fmt.Sprintf(credentialID, "c"), fmt.Sprintf(tenantID, "i"))
