-- +goose Up
-- The ledger: what each tenant used, as gateways tell it, and what is added up from it.

-- How far the ledger has the events of one boot of a replica. All numbers up to seq are
-- in it (or in usage_quarantine, or given up in usage_gaps); ahead holds stretches beyond,
-- as pairs of first and last.
CREATE TABLE usage_marks (
  run        integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  replica    text NOT NULL CHECK (char_length(replica) BETWEEN 1 AND 64),
  boot       text NOT NULL CHECK (char_length(boot) BETWEEN 1 AND 64),
  seq        bigint NOT NULL DEFAULT 0 CHECK (seq >= 0),
  ahead      bigint[] NOT NULL DEFAULT '{}',
  gap_since  timestamptz,
  through    timestamptz NOT NULL,
  final      boolean NOT NULL DEFAULT false,
  first_at   timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  UNIQUE (replica, boot)
);
CREATE INDEX usage_marks_updated ON usage_marks (updated_at DESC);
CREATE INDEX usage_marks_gaps ON usage_marks (gap_since) WHERE gap_since IS NOT NULL;

-- Numbers that a replica did not tell for so long that they are given up. Should they come
-- all the same, they are taken in: filled holds them.
CREATE TABLE usage_gaps (
  id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run       integer NOT NULL REFERENCES usage_marks (run),
  first_seq bigint NOT NULL CHECK (first_seq > 0),
  last_seq  bigint NOT NULL CHECK (last_seq >= first_seq),
  missing   bigint NOT NULL CHECK (missing BETWEEN 0 AND last_seq - first_seq + 1),
  filled    bigint[] NOT NULL DEFAULT '{}',
  after_at  timestamptz NOT NULL, -- up to here the boot's events were complete
  noted_at  timestamptz NOT NULL,
  filled_at timestamptz CHECK ((filled_at IS NULL) = (missing > 0))
);
CREATE INDEX usage_gaps_open ON usage_gaps (run, first_seq) WHERE missing > 0;
CREATE INDEX usage_gaps_noted ON usage_gaps (noted_at DESC, id DESC);

-- Two rows of one: taking events in and adding them up wait for nobody but their own kind.
-- ingest counts transactions that took events in; they commit in its order.
CREATE TABLE usage_intake (
  one         boolean PRIMARY KEY DEFAULT true CHECK (one),
  ingest      bigint NOT NULL DEFAULT 0 CHECK (ingest >= 0),
  corrections bigint NOT NULL DEFAULT 0 CHECK (corrections >= 0),
  unreadable  bigint NOT NULL DEFAULT 0 CHECK (unreadable >= 0),
  updated_at  timestamptz
);
INSERT INTO usage_intake DEFAULT VALUES;
CREATE TABLE usage_rollup (
  one        boolean PRIMARY KEY DEFAULT true CHECK (one),
  ingest     bigint NOT NULL DEFAULT 0 CHECK (ingest >= 0), -- up to here everything is added up
  updated_at timestamptz
);
INSERT INTO usage_rollup DEFAULT VALUES;

-- The record. A row is an event, for ever: corrections are further rows.
CREATE TABLE usage_events (
  occurred_at timestamptz NOT NULL,
  ingest      bigint NOT NULL CHECK (ingest > 0),
  seq         bigint NOT NULL CHECK (seq > 0),
  requests    bigint NOT NULL CHECK (requests BETWEEN 0 AND 4503599627370496),
  cost        bigint NOT NULL CHECK (cost BETWEEN -4503599627370496 AND 4503599627370496 AND (cost >= 0 OR outcome = 'settled')),
  run         integer NOT NULL,
  tenant_id   text NOT NULL,
  kid         text NOT NULL,
  route       text NOT NULL,
  outcome     text NOT NULL CHECK (outcome <> ''),
  PRIMARY KEY (occurred_at, run, seq)
) PARTITION BY RANGE (occurred_at);
CREATE INDEX usage_events_ingest ON usage_events (ingest);
-- Triggers of rows hold for partitions, too; that of statements each partition has for itself.
CREATE TRIGGER usage_events_kept BEFORE UPDATE OR DELETE ON usage_events FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER usage_events_whole BEFORE TRUNCATE ON usage_events FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What no month is there for; usage_tidy_default finds it a month.
CREATE TABLE usage_events_default PARTITION OF usage_events DEFAULT;
CREATE TRIGGER usage_events_whole BEFORE TRUNCATE ON usage_events_default FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- usage_make_month makes the partition of a month, in UTC whatever the server's zone. It
-- returns false when it is there. Rows of that month in the default partition are in its
-- way (23514): usage_tidy_default first.
-- +goose StatementBegin
CREATE FUNCTION usage_make_month(month date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  name text := 'usage_events_' || to_char(month, 'YYYYMM');
BEGIN
  IF extract(day FROM month) <> 1 THEN
    RAISE EXCEPTION '% is no first of a month', month USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF to_regclass(quote_ident(name)) IS NOT NULL THEN
    RETURN false;
  END IF;
  EXECUTE format('CREATE TABLE %I PARTITION OF usage_events FOR VALUES FROM (%L) TO (%L)', name,
    to_char(month, 'YYYY-MM-DD') || ' 00:00:00+00', to_char(month + interval '1 month', 'YYYY-MM-DD') || ' 00:00:00+00');
  EXECUTE format('CREATE TRIGGER usage_events_whole BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
  RETURN true;
END $$;
-- +goose StatementEnd

-- usage_tidy_default puts what lies in the default partition into months of its own, and
-- returns how many rows that was. Nobody sees them missing or twice.
-- +goose StatementBegin
CREATE FUNCTION usage_tidy_default() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  m date;
  moved bigint;
BEGIN
  LOCK TABLE usage_events IN ACCESS EXCLUSIVE MODE;
  IF NOT EXISTS (SELECT FROM usage_events_default) THEN
    RETURN 0;
  END IF;
  ALTER TABLE usage_events DETACH PARTITION usage_events_default;
  ALTER TABLE usage_events_default RENAME TO usage_events_stray;
  CREATE TABLE usage_events_default PARTITION OF usage_events DEFAULT;
  CREATE TRIGGER usage_events_whole BEFORE TRUNCATE ON usage_events_default FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
  FOR m IN SELECT DISTINCT date_trunc('month', occurred_at AT TIME ZONE 'UTC')::date FROM usage_events_stray LOOP
    PERFORM usage_make_month(m);
  END LOOP;
  INSERT INTO usage_events SELECT * FROM usage_events_stray;
  GET DIAGNOSTICS moved = ROW_COUNT;
  DROP TABLE usage_events_stray;
  RETURN moved;
END $$;
-- +goose StatementEnd

-- usage_detach_month takes a month out of the ledger, and usage_drop_month removes what was
-- taken out: two transactions, each short.
-- +goose StatementBegin
CREATE FUNCTION usage_detach_month(month date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  name text := 'usage_events_' || to_char(month, 'YYYYMM');
BEGIN
  IF to_regclass(quote_ident(name)) IS NULL THEN
    RETURN false;
  END IF;
  EXECUTE format('ALTER TABLE usage_events DETACH PARTITION %I', name);
  EXECUTE format('ALTER TABLE %I RENAME TO %I', name, 'usage_gone_' || to_char(month, 'YYYYMM'));
  RETURN true;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION usage_drop_month(month date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  name text := 'usage_gone_' || to_char(month, 'YYYYMM');
BEGIN
  IF to_regclass(quote_ident(name)) IS NULL THEN
    RETURN false;
  END IF;
  EXECUTE format('DROP TABLE %I', name);
  RETURN true;
END $$;
-- +goose StatementEnd

-- usage_months lists the partitions of months, and the months that were taken out and not
-- removed yet.
-- +goose StatementBegin
CREATE FUNCTION usage_months() RETURNS TABLE (month date, attached boolean) LANGUAGE sql STABLE AS $$
  SELECT to_date(right(c.relname, 6), 'YYYYMM'), i.inhrelid IS NOT NULL FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
  WHERE c.relkind = 'r' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'usage_events'::regclass)
    AND c.relname ~ '^usage_(events|gone)_[0-9]{6}$' ORDER BY 1
$$;
-- +goose StatementEnd

-- What is added up. Times are the beginnings of stretches, in UTC.
CREATE TABLE usage_minutes (
  at        timestamptz NOT NULL,
  requests  bigint NOT NULL,
  cost      bigint NOT NULL,
  tenant_id text NOT NULL,
  kid       text NOT NULL,
  route     text NOT NULL,
  outcome   text NOT NULL,
  PRIMARY KEY (tenant_id, at, kid, route, outcome)
);
CREATE INDEX usage_minutes_at ON usage_minutes (at);
-- Quarters of hours: the hours and days of any zone are sums of them.
CREATE TABLE usage_quarters (LIKE usage_minutes, PRIMARY KEY (tenant_id, at, kid, route, outcome));
CREATE INDEX usage_quarters_at ON usage_quarters (at);
CREATE TABLE usage_days (LIKE usage_minutes, PRIMARY KEY (tenant_id, at, kid, route, outcome));
CREATE INDEX usage_days_at ON usage_days (at);

-- All tenants together, by replica.
CREATE TABLE usage_fleet (
  at       timestamptz NOT NULL,
  requests bigint NOT NULL,
  cost     bigint NOT NULL,
  replica  text NOT NULL,
  route    text NOT NULL,
  outcome  text NOT NULL,
  PRIMARY KEY (at, replica, route, outcome)
);

CREATE TABLE usage_fleet_days (LIKE usage_fleet, PRIMARY KEY (at, replica, route, outcome));

-- usage_class says under which sum an outcome is counted; console.UsageSums does the same.
CREATE FUNCTION usage_class(outcome text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN CASE outcome
  WHEN 'admitted' THEN 'admitted' WHEN 'fallback-admitted' THEN 'fallback' WHEN 'interrupted' THEN 'interrupted' WHEN 'settled' THEN 'settled'
  WHEN 'limited' THEN 'refused' WHEN 'blocked' THEN 'refused' WHEN 'fallback-refused' THEN 'refused' WHEN 'closed' THEN 'refused' ELSE 'other' END;

-- One row for all of a tenant's hour or day: lists and quotas read these.
CREATE TABLE usage_tenant_hours (
  at               timestamptz NOT NULL,
  admitted         bigint NOT NULL DEFAULT 0,
  cost             bigint NOT NULL DEFAULT 0,
  fallback         bigint NOT NULL DEFAULT 0,
  fallback_cost    bigint NOT NULL DEFAULT 0,
  interrupted      bigint NOT NULL DEFAULT 0,
  interrupted_cost bigint NOT NULL DEFAULT 0,
  settled          bigint NOT NULL DEFAULT 0,
  refused          bigint NOT NULL DEFAULT 0,
  other            bigint NOT NULL DEFAULT 0,
  tenant_id        text NOT NULL,
  PRIMARY KEY (tenant_id, at)
);
CREATE INDEX usage_tenant_hours_at ON usage_tenant_hours (at);
CREATE TABLE usage_tenant_days (LIKE usage_tenant_hours INCLUDING DEFAULTS, PRIMARY KEY (tenant_id, at));
CREATE INDEX usage_tenant_days_at ON usage_tenant_days (at);

-- What the ledger did not take, and why.
CREATE TABLE usage_quarantine (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  reason      text NOT NULL CHECK (reason IN ('late', 'early', 'unknown-tenant', 'refused', 'unreadable')),
  detail      text NOT NULL CHECK (char_length(detail) <= 500),
  replica     text NOT NULL,
  boot        text NOT NULL,
  seq         bigint NOT NULL,
  event       json, -- NULL for what could not be read
  body        bytea,
  events      bigint NOT NULL CHECK (events >= 0),
  received_at timestamptz NOT NULL,
  state       text NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'released', 'discarded')),
  decided_by  text NOT NULL DEFAULT '',
  decided_why text NOT NULL DEFAULT '',
  decided_at  timestamptz,
  CHECK ((state = 'held') = (decided_at IS NULL)),
  CHECK ((event IS NULL) <> (body IS NULL))
);
CREATE UNIQUE INDEX usage_quarantine_once ON usage_quarantine (replica, boot, seq) WHERE event IS NOT NULL;
CREATE UNIQUE INDEX usage_quarantine_body ON usage_quarantine (sha256(body)) WHERE body IS NOT NULL;
CREATE INDEX usage_quarantine_held ON usage_quarantine (id) WHERE state = 'held';
CREATE TRIGGER usage_quarantine_final BEFORE UPDATE ON usage_quarantine FOR EACH ROW EXECUTE FUNCTION refuse_leaving_final('released', 'discarded');
CREATE TRIGGER usage_quarantine_kept BEFORE DELETE ON usage_quarantine FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A billing period that was closed, with what it came to. It never changes: what comes
-- later for it is in usage_adjustments.
CREATE TABLE usage_periods (
  id               text PRIMARY KEY CHECK (id ~ '^upr_[a-z2-7]{16}$'),
  tenant_id        text NOT NULL REFERENCES tenants (id),
  from_at          timestamptz NOT NULL,
  to_at            timestamptz NOT NULL CHECK (to_at > from_at),
  closed_at        timestamptz NOT NULL CHECK (closed_at >= to_at),
  closed_by        text NOT NULL,
  note             text NOT NULL CHECK (char_length(note) <= 500),
  ingest           bigint NOT NULL, -- events up to here are in its sums
  admitted         bigint NOT NULL,
  cost             bigint NOT NULL,
  fallback         bigint NOT NULL,
  fallback_cost    bigint NOT NULL,
  interrupted      bigint NOT NULL,
  interrupted_cost bigint NOT NULL,
  settled          bigint NOT NULL,
  refused          bigint NOT NULL,
  other            bigint NOT NULL
);
CREATE UNIQUE INDEX usage_periods_from ON usage_periods (tenant_id, from_at);
CREATE INDEX usage_periods_to ON usage_periods (to_at);
CREATE INDEX usage_periods_page ON usage_periods (closed_at DESC, id DESC);
CREATE TRIGGER usage_periods_kept BEFORE UPDATE OR DELETE ON usage_periods FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER usage_periods_whole BEFORE TRUNCATE ON usage_periods FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE usage_adjustments (
  period_id text NOT NULL REFERENCES usage_periods (id),
  ingest    bigint NOT NULL,
  kid       text NOT NULL,
  route     text NOT NULL,
  outcome   text NOT NULL,
  requests  bigint NOT NULL,
  cost      bigint NOT NULL,
  events    bigint NOT NULL CHECK (events > 0),
  first_at  timestamptz NOT NULL,
  last_at   timestamptz NOT NULL,
  noted_at  timestamptz NOT NULL,
  PRIMARY KEY (period_id, ingest, kid, route, outcome)
);
CREATE TRIGGER usage_adjustments_kept BEFORE UPDATE OR DELETE ON usage_adjustments FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER usage_adjustments_whole BEFORE TRUNCATE ON usage_adjustments FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Tenants' pages read their own sums.
-- +goose StatementBegin
DO $$
DECLARE
  t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['usage_minutes', 'usage_quarters', 'usage_days'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY %I ON %I TO CURRENT_USER USING (true) WITH CHECK (true)', t || '_console', t);
    EXECUTE format('CREATE POLICY %I ON %I FOR SELECT TO headgate_portal USING (tenant_id = nullif(current_setting(''app.tenant_id'', true), ''''))', t || '_portal', t);
    EXECUTE format('GRANT SELECT ON %I TO headgate_portal', t);
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE usage_adjustments, usage_periods, usage_quarantine, usage_tenant_days, usage_tenant_hours, usage_fleet_days, usage_fleet, usage_days, usage_quarters, usage_minutes,
  usage_events, usage_rollup, usage_intake, usage_gaps, usage_marks;
DROP FUNCTION usage_months, usage_class, usage_drop_month, usage_detach_month, usage_tidy_default, usage_make_month;
