-- +goose Up
-- Keys that are not used, that expire, that got out; brown-outs of rotations; leak cases.

ALTER TABLE credentials ADD COLUMN contact text NOT NULL DEFAULT '' CHECK (contact = btrim(contact) AND char_length(contact) <= 200);

ALTER TABLE key_versions
  -- What is known of its use, coarsely: idle_since moves at most once a day. The exact times are in key_use.
  ADD COLUMN used boolean NOT NULL DEFAULT false,
  ADD COLUMN idle_since timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN leaked boolean NOT NULL DEFAULT false,
  ADD COLUMN brownout_network text,
  ADD COLUMN brownout_from timestamptz,
  ADD COLUMN brownout_until timestamptz,
  ADD CONSTRAINT key_versions_brownout CHECK (
    (brownout_from IS NULL AND brownout_until IS NULL AND brownout_network IS NULL) OR
    (brownout_network IS NOT NULL AND brownout_until > brownout_from AND brownout_until <= brownout_from + interval '1 minute'));
UPDATE key_versions SET idle_since = created_at, leaked = coalesce(revoke_reason = 'leak', false) WHERE true;

CREATE INDEX key_versions_idle ON key_versions (idle_since, kid) WHERE state IN ('active', 'retiring', 'suspended');
CREATE INDEX key_versions_never ON key_versions (created_at DESC, kid DESC) WHERE NOT used AND state IN ('active', 'retiring', 'suspended');
CREATE INDEX key_versions_expiring ON key_versions (not_after, kid) WHERE state IN ('active', 'suspended') AND not_after IS NOT NULL;
CREATE INDEX key_versions_retiring ON key_versions (not_after, kid) WHERE state = 'retiring';
CREATE INDEX key_versions_leaked ON key_versions (created_at DESC, kid DESC) WHERE leaked;

ALTER TABLE rotations ADD COLUMN member_extensions integer NOT NULL DEFAULT 0 CHECK (member_extensions BETWEEN 0 AND extensions);
CREATE INDEX rotations_risk ON rotations (ends_at, id) WHERE state = 'overlap';
CREATE INDEX rotations_over ON rotations (ended_at DESC, id DESC) WHERE state <> 'overlap';
CREATE INDEX rotations_tenant ON rotations (tenant_id, started_at DESC, id DESC);

CREATE TABLE brownouts (
  id          text PRIMARY KEY CHECK (id ~ '^brn_[a-z2-7]{16}$'),
  rotation_id text NOT NULL REFERENCES rotations (id),
  kid         text NOT NULL REFERENCES key_versions (kid),
  tenant_id   text NOT NULL REFERENCES tenants (id),
  network     text NOT NULL DEFAULT '',
  from_at     timestamptz NOT NULL,
  until_at    timestamptz NOT NULL CHECK (until_at > from_at AND until_at <= from_at + interval '1 minute'),
  stopped_at  timestamptz CHECK (stopped_at >= from_at),
  author_id   text NOT NULL,
  author      text NOT NULL,
  reason      text NOT NULL
);
CREATE INDEX brownouts_rotation ON brownouts (rotation_id, from_at DESC, id DESC);
CREATE TRIGGER brownouts_kept BEFORE DELETE ON brownouts FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE leak_cases (
  id        text PRIMARY KEY CHECK (id ~ '^lek_[a-z2-7]{16}$'),
  kid       text NOT NULL REFERENCES key_versions (kid),
  tenant_id text NOT NULL REFERENCES tenants (id),
  state     text NOT NULL CHECK (state IN ('open', 'contained', 'dismissed')),
  source    text NOT NULL CHECK (char_length(source) BETWEEN 1 AND 60),
  kind      text NOT NULL DEFAULT '' CHECK (char_length(kind) <= 120),
  url       text NOT NULL DEFAULT '' CHECK (char_length(url) <= 2000),
  note      text NOT NULL DEFAULT '' CHECK (char_length(note) <= 500),
  done      text NOT NULL DEFAULT '',
  found_at  timestamptz NOT NULL,
  closed_at timestamptz CHECK (closed_at >= found_at),
  closed_by text NOT NULL DEFAULT '',
  reports   bigint NOT NULL DEFAULT 1 CHECK (reports > 0),
  CONSTRAINT leak_cases_closed CHECK ((state = 'open') = (closed_at IS NULL))
);
CREATE UNIQUE INDEX leak_cases_one_open ON leak_cases (kid) WHERE state = 'open';
CREATE INDEX leak_cases_page ON leak_cases (found_at DESC, id DESC);
CREATE INDEX leak_cases_state ON leak_cases (state, found_at DESC, id DESC);
CREATE INDEX leak_cases_kid ON leak_cases (kid, found_at DESC, id DESC);
CREATE TRIGGER leak_cases_kept BEFORE DELETE ON leak_cases FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER leak_cases_final BEFORE UPDATE ON leak_cases FOR EACH ROW EXECUTE FUNCTION refuse_leaving_final('contained', 'dismissed');

-- Tenants' members change things, too, on their own pages.
ALTER TABLE audit_events DROP CONSTRAINT audit_events_via_check, ADD CONSTRAINT audit_events_via_check CHECK (via IN ('console', 'api', 'cli', 'portal', 'system'));

-- +goose Down
ALTER TABLE audit_events DROP CONSTRAINT audit_events_via_check, ADD CONSTRAINT audit_events_via_check CHECK (via IN ('console', 'api', 'cli', 'system')) NOT VALID;
DROP TABLE leak_cases, brownouts;
DROP INDEX rotations_tenant, rotations_over, rotations_risk, key_versions_leaked, key_versions_retiring, key_versions_expiring, key_versions_never, key_versions_idle;
ALTER TABLE rotations DROP COLUMN member_extensions;
ALTER TABLE key_versions DROP CONSTRAINT key_versions_brownout, DROP COLUMN brownout_until, DROP COLUMN brownout_from, DROP COLUMN brownout_network,
  DROP COLUMN leaked, DROP COLUMN idle_since, DROP COLUMN used;
ALTER TABLE credentials DROP COLUMN contact;
