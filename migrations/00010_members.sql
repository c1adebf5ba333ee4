-- +goose Up
-- Members of tenants, how they sign in, what they ask for; and the role under
-- which their pages read, for which only one tenant's rows exist.

CREATE TABLE members (
  id            text PRIMARY KEY CHECK (id ~ '^mem_[a-z2-7]{16}$'),
  tenant_id     text NOT NULL REFERENCES tenants (id),
  email         text NOT NULL DEFAULT '' CHECK (char_length(email) <= 254),
  external_user text NOT NULL DEFAULT '' CHECK (char_length(external_user) <= 120), -- the person's id in the tenant's own system
  name          text NOT NULL DEFAULT '' CHECK (char_length(name) <= 120),
  role          text NOT NULL CHECK (role IN ('tenant-viewer', 'tenant-admin')),
  password_hash text NOT NULL DEFAULT '',
  created_at    timestamptz NOT NULL,
  joined_at     timestamptz,
  disabled_at   timestamptz,
  UNIQUE (id, tenant_id),
  CONSTRAINT members_named CHECK (email <> '' OR external_user <> '')
);
CREATE UNIQUE INDEX members_email ON members (tenant_id, lower(email)) WHERE disabled_at IS NULL AND email <> '';
CREATE UNIQUE INDEX members_external_user ON members (tenant_id, external_user) WHERE disabled_at IS NULL AND external_user <> '';
CREATE INDEX members_by_email ON members (lower(email)) WHERE disabled_at IS NULL AND email <> '';
CREATE TRIGGER members_kept BEFORE DELETE ON members FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE member_sessions (
  hash       text PRIMARY KEY CHECK (hash ~ '^[0-9a-f]{64}$'),
  member_id  text NOT NULL,
  tenant_id  text NOT NULL,
  data       bytea NOT NULL,
  ip         text NOT NULL,
  user_agent text NOT NULL,
  created_at timestamptz NOT NULL,
  seen_at    timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  FOREIGN KEY (member_id, tenant_id) REFERENCES members (id, tenant_id)
);
CREATE INDEX member_sessions_member ON member_sessions (member_id);
CREATE INDEX member_sessions_tenant ON member_sessions (tenant_id);
CREATE INDEX member_sessions_dead ON member_sessions (seen_at);

CREATE TABLE member_invitations (
  id          text PRIMARY KEY CHECK (id ~ '^inv_[a-z2-7]{16}$'),
  tenant_id   text NOT NULL REFERENCES tenants (id),
  email       text NOT NULL CHECK (char_length(email) BETWEEN 3 AND 254),
  role        text NOT NULL CHECK (role IN ('tenant-viewer', 'tenant-admin')),
  secret_hash text NOT NULL UNIQUE CHECK (secret_hash ~ '^[0-9a-f]{64}$'),
  invited_by  text NOT NULL,
  created_at  timestamptz NOT NULL,
  expires_at  timestamptz NOT NULL CHECK (expires_at > created_at),
  used_at     timestamptz,
  revoked_at  timestamptz
);
CREATE INDEX member_invitations_tenant ON member_invitations (tenant_id, created_at DESC);

CREATE TABLE sign_in_links (
  hash       text PRIMARY KEY CHECK (hash ~ '^[0-9a-f]{64}$'),
  member_id  text NOT NULL,
  tenant_id  text NOT NULL,
  made_by    text NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL CHECK (expires_at > created_at),
  used_at    timestamptz,
  FOREIGN KEY (member_id, tenant_id) REFERENCES members (id, tenant_id)
);
CREATE INDEX sign_in_links_member ON sign_in_links (member_id);
CREATE INDEX sign_in_links_over ON sign_in_links (expires_at);

CREATE TABLE asks (
  id           text PRIMARY KEY CHECK (id ~ '^ask_[a-z2-7]{16}$'),
  tenant_id    text NOT NULL REFERENCES tenants (id),
  limit_id     text NOT NULL,
  wanted       text NOT NULL,
  factor_milli bigint NOT NULL CHECK (factor_milli > 1000),
  until        timestamptz,
  why          text NOT NULL,
  state        text NOT NULL CHECK (state IN ('open', 'granted', 'refused')),
  member_id    text NOT NULL,
  member_name  text NOT NULL,
  decided_by   text NOT NULL DEFAULT '',
  answer       text NOT NULL DEFAULT '',
  created_at   timestamptz NOT NULL,
  decided_at   timestamptz,
  FOREIGN KEY (member_id, tenant_id) REFERENCES members (id, tenant_id),
  CONSTRAINT asks_decided CHECK ((state = 'open') = (decided_at IS NULL))
);
CREATE INDEX asks_tenant ON asks (tenant_id, created_at DESC, id DESC);
CREATE INDEX asks_open ON asks (created_at, id) WHERE state = 'open';
CREATE TRIGGER asks_kept BEFORE DELETE ON asks FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What tenants may do by themselves. The scope is '' for all, 'plan:' and a plan's
-- name, or a tenant's id; the narrowest one holds.
CREATE TABLE portal_rules (
  scope      text PRIMARY KEY,
  rules      json NOT NULL,
  updated_at timestamptz NOT NULL
);

CREATE TABLE thresholds (
  id         text PRIMARY KEY CHECK (id ~ '^thr_[a-z2-7]{16}$'),
  tenant_id  text NOT NULL REFERENCES tenants (id),
  kind       text NOT NULL CHECK (kind IN ('refused-share', 'requests-minute', 'quota-used')),
  value      bigint NOT NULL CHECK (value > 0),
  member_id  text NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX thresholds_one ON thresholds (tenant_id, kind, value);

-- Sessions end with what they rest on, in the same transaction, whoever changes it.
-- +goose StatementBegin
CREATE FUNCTION end_member_sessions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TABLE_NAME = 'tenants' THEN
    DELETE FROM member_sessions WHERE tenant_id = NEW.id;
    DELETE FROM sign_in_links WHERE tenant_id = NEW.id;
  ELSE
    DELETE FROM member_sessions WHERE member_id = NEW.id;
    DELETE FROM sign_in_links WHERE member_id = NEW.id;
  END IF;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER tenants_end_sessions AFTER UPDATE OF state ON tenants FOR EACH ROW
  WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION end_member_sessions();
CREATE TRIGGER members_end_sessions AFTER UPDATE ON members FOR EACH ROW
  WHEN (OLD.role IS DISTINCT FROM NEW.role OR OLD.disabled_at IS DISTINCT FROM NEW.disabled_at OR OLD.password_hash IS DISTINCT FROM NEW.password_hash)
  EXECUTE FUNCTION end_member_sessions();

-- The role is one for the whole server; other databases may have made it. Whoever
-- migrates must be able to become it, and be the one that the console connects as.
-- +goose StatementBegin
DO $$
BEGIN
  BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'headgate_portal') THEN
      CREATE ROLE headgate_portal NOLOGIN NOBYPASSRLS;
    END IF;
  EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
  END;
  BEGIN
    SET LOCAL ROLE headgate_portal;
    RESET ROLE;
  EXCEPTION WHEN insufficient_privilege OR invalid_parameter_value THEN
    BEGIN
      EXECUTE format('GRANT headgate_portal TO %I', current_user);
    EXCEPTION WHEN insufficient_privilege OR undefined_object THEN
      RAISE EXCEPTION 'tenants'' pages read as the role headgate_portal, which % can neither make nor become; as a superuser run: CREATE ROLE headgate_portal NOLOGIN; GRANT headgate_portal TO %; (if the role exists, the second is enough) and migrate again',
        current_user, quote_ident(current_user) USING ERRCODE = 'insufficient_privilege';
    END;
  END;
END $$;
-- +goose StatementEnd

-- Digests of keys, hashes of passwords and secrets of links are not granted at all.
-- +goose StatementBegin
DO $$
DECLARE
  t record;
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO headgate_portal', current_schema());
  FOR t IN SELECT * FROM (VALUES
    ('tenants', 'id', 'id, name, plan, time_zone, state, created_at'),
    ('credentials', 'tenant_id', 'id, tenant_id, name, environment, scopes, expires_at, created_at'),
    ('key_versions', 'tenant_id', 'kid, credential_id, tenant_id, state, created_at, activated_at, retiring_at, not_after, revoked_at, revoke_reason, ended_at'),
    ('rotations', 'tenant_id', 'id, credential_id, tenant_id, old_kid, new_kid, state, reason, overlap_seconds, old_not_after, started_at, ends_at, ended_at, end_reason, extensions'),
    ('members', 'tenant_id', 'id, tenant_id, email, external_user, name, role, created_at, joined_at, disabled_at'),
    ('member_sessions', 'tenant_id', 'member_id, tenant_id, created_at, seen_at, expires_at'),
    ('member_invitations', 'tenant_id', 'id, tenant_id, email, role, invited_by, created_at, expires_at, used_at, revoked_at'),
    ('sign_in_links', 'tenant_id', 'member_id, tenant_id, created_at, expires_at, used_at'),
    ('asks', 'tenant_id', 'id, tenant_id, limit_id, wanted, factor_milli, until, why, state, member_id, member_name, decided_by, answer, created_at, decided_at'),
    ('thresholds', 'tenant_id', 'id, tenant_id, kind, value, member_id, created_at'),
    ('key_use', 'tenant_id', 'kid, tenant_id, first_used_at, last_used_at, last_network, last_agent, refused_at'),
    ('key_sources', 'tenant_id', 'kid, tenant_id, network, agent, first_seen, last_seen, requests, limited, refused')
  ) AS v (name, tenant, columns) LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t.name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t.name);
    EXECUTE format('CREATE POLICY %I ON %I TO CURRENT_USER USING (true) WITH CHECK (true)', t.name || '_console', t.name);
    EXECUTE format('CREATE POLICY %I ON %I FOR SELECT TO headgate_portal USING (%I = nullif(current_setting(''app.tenant_id'', true), ''''))',
      t.name || '_portal', t.name, t.tenant);
    EXECUTE format('GRANT SELECT (%s) ON %I TO headgate_portal', t.columns, t.name);
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
  t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['tenants', 'credentials', 'key_versions', 'rotations', 'key_use', 'key_sources'] LOOP
    EXECUTE format('DROP POLICY %I ON %I', t || '_console', t);
    EXECUTE format('DROP POLICY %I ON %I', t || '_portal', t);
    EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I DISABLE ROW LEVEL SECURITY', t);
    EXECUTE format('REVOKE ALL ON %I FROM headgate_portal', t);
  END LOOP;
END $$;
-- +goose StatementEnd
DROP TRIGGER tenants_end_sessions ON tenants;
DROP TABLE thresholds, portal_rules, asks, sign_in_links, member_invitations, member_sessions, members;
DROP FUNCTION end_member_sessions;
