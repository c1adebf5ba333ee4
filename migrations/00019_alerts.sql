-- +goose Up

-- What operators want to be told of. A rule may be changed and removed; alerts that
-- it raised keep its name.
CREATE TABLE alert_rules (
  id          text PRIMARY KEY CHECK (id ~ '^alr_[a-z2-7]{16}$'),
  name        text NOT NULL,
  kind        text NOT NULL,
  threshold   bigint NOT NULL CHECK (threshold >= 0),
  for_seconds integer NOT NULL DEFAULT 0 CHECK (for_seconds BETWEEN 0 AND 86400),
  channels    text[] NOT NULL,
  enabled     boolean NOT NULL,
  created_at  timestamptz NOT NULL,
  updated_at  timestamptz NOT NULL
);

-- Where messages go: operators' channels (no tenant) and tenants' own. Secrets are
-- encrypted with a key that the database does not have.
CREATE TABLE alert_channels (
  id         text PRIMARY KEY CHECK (id ~ '^chn_[a-z2-7]{16}$'),
  tenant_id  text REFERENCES tenants (id),
  name       text NOT NULL,
  kind       text NOT NULL CHECK (kind IN ('mail', 'webhook')),
  target     text NOT NULL CHECK (length(target) BETWEEN 1 AND 500),
  secret     bytea CHECK ((secret IS NULL) = (kind = 'mail')),
  secret_at  timestamptz CHECK ((secret_at IS NULL) = (secret IS NULL)),
  old_secret bytea,
  old_until  timestamptz CHECK ((old_until IS NULL) = (old_secret IS NULL)),
  enabled    boolean NOT NULL,
  problem    text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX alert_channels_tenant ON alert_channels (tenant_id, created_at);

-- What is, or was, so. At most one alert of a rule and an object is open. tenant_id is
-- whose alert it is, not whom it is about: null for operators'.
CREATE TABLE alerts (
  id          text PRIMARY KEY CHECK (id ~ '^alt_[a-z2-7]{16}$'),
  tenant_id   text REFERENCES tenants (id),
  rule_id     text NOT NULL,
  rule_name   text NOT NULL,
  kind        text NOT NULL,
  object      text NOT NULL,
  object_name text NOT NULL,
  value       bigint NOT NULL,
  threshold   bigint NOT NULL,
  words       text NOT NULL,
  opened_at   timestamptz NOT NULL,
  seen_at     timestamptz NOT NULL CHECK (seen_at >= opened_at),
  told_at     timestamptz,
  resolved_at timestamptz CHECK (resolved_at >= opened_at),
  resolution  text NOT NULL DEFAULT '',
  CONSTRAINT alerts_resolution CHECK ((resolved_at IS NULL) = (resolution = ''))
);
CREATE UNIQUE INDEX alerts_one_open ON alerts (rule_id, object) WHERE resolved_at IS NULL;
CREATE INDEX alerts_order ON alerts (opened_at DESC, id DESC);
CREATE INDEX alerts_tenant ON alerts (tenant_id, opened_at DESC, id DESC) WHERE tenant_id IS NOT NULL;

-- +goose StatementBegin
CREATE FUNCTION alerts_stay_resolved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'alert % is resolved', OLD.id USING ERRCODE = 'integrity_constraint_violation';
END $$;
-- +goose StatementEnd
CREATE TRIGGER alerts_final BEFORE UPDATE ON alerts FOR EACH ROW WHEN (OLD.resolved_at IS NOT NULL)
  EXECUTE FUNCTION alerts_stay_resolved();

-- While one holds, what it fits is raised and shown, and nobody is told. '' fits all.
CREATE TABLE alert_silences (
  id         text PRIMARY KEY CHECK (id ~ '^sil_[a-z2-7]{16}$'),
  rule_id    text NOT NULL,
  object     text NOT NULL,
  reason     text NOT NULL CHECK (reason <> ''),
  author_id  text NOT NULL,
  author     text NOT NULL,
  created_at timestamptz NOT NULL,
  ends_at    timestamptz NOT NULL CHECK (ends_at > created_at),
  ended_at   timestamptz,
  ended_by   text NOT NULL DEFAULT '',
  CONSTRAINT alert_silences_bounded CHECK (ends_at <= created_at + interval '31 days')
);
CREATE INDEX alert_silences_ends ON alert_silences (ends_at DESC);

-- Messages on their way. The id is that of the message for ever, so that a receiver
-- can tell a repeat. An alert is told once by each event to each channel.
CREATE TABLE alert_deliveries (
  id           text PRIMARY KEY CHECK (id ~ '^dlv_[a-z2-7]{16}$'),
  tenant_id    text REFERENCES tenants (id),
  channel_id   text NOT NULL,
  channel_name text NOT NULL,
  kind         text NOT NULL,
  target       text NOT NULL,
  alert_id     text NOT NULL,
  event        text NOT NULL CHECK (event IN ('alert.opened', 'alert.resolved', 'alert.test')),
  subject      text NOT NULL,
  body         text NOT NULL,
  state        text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sent', 'dead')),
  attempts     integer NOT NULL DEFAULT 0,
  next_at      timestamptz NOT NULL,
  leased_until timestamptz,
  status       integer NOT NULL DEFAULT 0,
  problem      text NOT NULL DEFAULT '',
  created_at   timestamptz NOT NULL,
  done_at      timestamptz,
  CONSTRAINT alert_deliveries_done CHECK ((state = 'waiting') = (done_at IS NULL))
);
CREATE UNIQUE INDEX alert_deliveries_once ON alert_deliveries (alert_id, event, channel_id) WHERE event <> 'alert.test';
CREATE INDEX alert_deliveries_due ON alert_deliveries (next_at) WHERE state = 'waiting';
CREATE INDEX alert_deliveries_channel ON alert_deliveries (channel_id, created_at, id) WHERE state = 'waiting';
CREATE INDEX alert_deliveries_order ON alert_deliveries (created_at DESC, id DESC);
CREATE INDEX alert_deliveries_done ON alert_deliveries (done_at) WHERE done_at IS NOT NULL;
CREATE INDEX alert_deliveries_tenant ON alert_deliveries (tenant_id, created_at DESC, id DESC) WHERE tenant_id IS NOT NULL;

-- Tenants' pages read their own rows, and never a secret.
-- +goose StatementBegin
DO $$
DECLARE
  t record;
BEGIN
  FOR t IN SELECT * FROM (VALUES
    ('alert_channels', 'id, tenant_id, name, kind, target, secret_at, old_until, enabled, problem, created_at, updated_at'),
    ('alerts', 'id, tenant_id, rule_id, rule_name, kind, object, object_name, value, threshold, words, opened_at, seen_at, told_at, resolved_at, resolution'),
    ('alert_deliveries', 'id, tenant_id, channel_id, channel_name, kind, target, alert_id, event, subject, state, attempts, next_at, status, problem, created_at, done_at')
  ) AS v (name, columns) LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t.name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t.name);
    EXECUTE format('CREATE POLICY %I ON %I TO CURRENT_USER USING (true) WITH CHECK (true)', t.name || '_console', t.name);
    EXECUTE format('CREATE POLICY %I ON %I FOR SELECT TO headgate_portal USING (tenant_id = nullif(current_setting(''app.tenant_id'', true), ''''))',
      t.name || '_portal', t.name);
    EXECUTE format('GRANT SELECT (%s) ON %I TO headgate_portal', t.columns, t.name);
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE alert_deliveries, alert_silences, alerts, alert_channels, alert_rules;
DROP FUNCTION alerts_stay_resolved;
