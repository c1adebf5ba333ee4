-- +goose Up
-- What is known of quotas besides the ledger: units given once, lifetimes begun anew, how
-- far Redis and the ledger agree, which thresholds were crossed, and losses of counters.

-- Units on top of a quota's amount, for one period. They are given for good.
CREATE TABLE quota_grants (
  id           text PRIMARY KEY CHECK (id ~ '^gra_[a-z2-7]{16}$'),
  tenant_id    text NOT NULL REFERENCES tenants (id),
  period_start timestamptz NOT NULL,
  period_end   timestamptz CHECK (period_end > period_start), -- null: a lifetime
  units        bigint NOT NULL CHECK (units BETWEEN 1 AND 9007199254740991),
  reason       text NOT NULL CHECK (char_length(reason) BETWEEN 1 AND 500),
  author_id    text NOT NULL,
  author       text NOT NULL,
  created_at   timestamptz NOT NULL
);
CREATE INDEX quota_grants_tenant ON quota_grants (tenant_id, period_start, created_at);

-- Lifetimes begun anew: units of the ledger that no longer count.
CREATE TABLE quota_resets (
  id           text PRIMARY KEY CHECK (id ~ '^qrs_[a-z2-7]{16}$'),
  tenant_id    text NOT NULL REFERENCES tenants (id),
  period_start timestamptz NOT NULL,
  units        bigint NOT NULL CHECK (units BETWEEN 1 AND 9007199254740991),
  reason       text NOT NULL CHECK (char_length(reason) BETWEEN 1 AND 500),
  author_id    text NOT NULL,
  author       text NOT NULL,
  created_at   timestamptz NOT NULL
);
CREATE INDEX quota_resets_tenant ON quota_resets (tenant_id, period_start);

CREATE TRIGGER quota_grants_kept BEFORE UPDATE OR DELETE ON quota_grants FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER quota_resets_kept BEFORE UPDATE OR DELETE ON quota_resets FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- How Redis and the ledger stood when they were compared last; one row a tenant, of its current period.
CREATE TABLE quota_standings (
  tenant_id    text PRIMARY KEY REFERENCES tenants (id),
  plan         text NOT NULL,
  period       text NOT NULL CHECK (period IN ('day', 'week', 'month', 'year', 'lifetime')),
  period_start timestamptz NOT NULL,
  period_end   timestamptz,
  time_zone    text NOT NULL,
  counts       text NOT NULL CHECK (counts IN ('cost', 'requests')),
  over         text NOT NULL CHECK (over IN ('block', 'bill')),
  amount       bigint NOT NULL CHECK (amount >= 0), -- granted units included
  most         bigint NOT NULL CHECK (most >= 0),
  granted      bigint NOT NULL CHECK (granted >= 0),
  redis_units  bigint CHECK (redis_units >= 0), -- null: there is no counter
  ledger_units bigint NOT NULL CHECK (ledger_units >= 0),
  compared_at  timestamptz NOT NULL,
  complete     boolean NOT NULL, -- the ledger had all that live replicas had admitted
  healed_at    timestamptz,
  healed_units bigint NOT NULL DEFAULT 0 -- how the counter was corrected then; negative: lowered
);
CREATE INDEX quota_standings_drift ON quota_standings ((abs(ledger_units - coalesce(redis_units, 0))) DESC, tenant_id);
CREATE INDEX quota_standings_used ON quota_standings ((ledger_units::double precision / greatest(amount, 1)) DESC, tenant_id);

-- Each threshold once a period.
CREATE TABLE quota_crossings (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id    text NOT NULL REFERENCES tenants (id),
  period_start timestamptz NOT NULL,
  period_end   timestamptz,
  percent      integer NOT NULL CHECK (percent BETWEEN 1 AND 1000),
  units        bigint NOT NULL,
  amount       bigint NOT NULL,
  crossed_at   timestamptz NOT NULL, -- when it was seen
  UNIQUE (tenant_id, period_start, percent)
);

-- Losses of counters, and what became of them.
CREATE TABLE quota_losses (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  seen_at    timestamptz NOT NULL,
  lanes      integer NOT NULL CHECK (lanes BETWEEN 1 AND 256),
  rebuilt_at timestamptz NOT NULL CHECK (rebuilt_at >= seen_at),
  tenants    bigint NOT NULL,
  raised     bigint NOT NULL,
  complete   boolean NOT NULL, -- every live replica's admissions before the loss were in the ledger
  missing    text[] NOT NULL DEFAULT '{}' -- replicas that were not waited for any longer
);

-- Tenants' pages read their own rows, without who gave or compared what.
-- +goose StatementBegin
DO $$
DECLARE
  t record;
BEGIN
  FOR t IN SELECT * FROM (VALUES
    ('quota_grants', 'id, tenant_id, period_start, period_end, units, created_at'),
    ('quota_standings', 'tenant_id, plan, period, period_start, period_end, time_zone, counts, over, amount, most, granted, redis_units, ledger_units, compared_at, complete'),
    ('quota_crossings', 'id, tenant_id, period_start, period_end, percent, units, amount, crossed_at')
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
DROP TABLE quota_losses, quota_crossings, quota_standings, quota_resets, quota_grants;
