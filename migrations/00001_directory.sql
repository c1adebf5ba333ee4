-- +goose Up
-- Tenants, credentials, key versions and rotations.

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd

-- refuse_leaving_final keeps a row in its final state, for the states given as arguments.
-- +goose StatementBegin
CREATE FUNCTION refuse_leaving_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state = ANY (TG_ARGV) AND NEW.state IS DISTINCT FROM OLD.state THEN
    RAISE EXCEPTION '%: state % is final', TG_TABLE_NAME, OLD.state USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_final_state';
  END IF;
  RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TABLE tenants (
  id          text PRIMARY KEY CHECK (id ~ '^ten_[a-z2-7]{16}$'),
  name        text NOT NULL CHECK (name = btrim(name) AND char_length(name) BETWEEN 1 AND 120),
  external_id text CHECK (char_length(external_id) BETWEEN 1 AND 120),
  plan        text NOT NULL CHECK (plan ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  time_zone   text NOT NULL CHECK (time_zone <> ''),
  state       text NOT NULL CHECK (state IN ('active', 'suspended', 'deleted')),
  reason      text NOT NULL DEFAULT '',
  seq         bigint NOT NULL CHECK (seq > 0),
  created_at  timestamptz NOT NULL,
  updated_at  timestamptz NOT NULL
);
CREATE UNIQUE INDEX tenants_external_id ON tenants (external_id) WHERE state <> 'deleted';
CREATE INDEX tenants_page ON tenants (created_at DESC, id DESC);
CREATE INDEX tenants_plan ON tenants (plan) WHERE state <> 'deleted';
CREATE TRIGGER tenants_final BEFORE UPDATE ON tenants FOR EACH ROW EXECUTE FUNCTION refuse_leaving_final('deleted');
CREATE TRIGGER tenants_kept BEFORE DELETE ON tenants FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE credentials (
  id          text PRIMARY KEY CHECK (id ~ '^crd_[a-z2-7]{16}$'),
  tenant_id   text NOT NULL REFERENCES tenants (id),
  name        text NOT NULL CHECK (name = btrim(name) AND char_length(name) BETWEEN 1 AND 120),
  environment text NOT NULL CHECK (environment IN ('live', 'test')),
  scopes      text[] NOT NULL DEFAULT '{}',
  expires_at  timestamptz CHECK (expires_at > created_at),
  created_at  timestamptz NOT NULL,
  UNIQUE (id, tenant_id)
);
CREATE INDEX credentials_tenant ON credentials (tenant_id, created_at DESC, id DESC);

CREATE TABLE key_versions (
  kid           text PRIMARY KEY CHECK (kid ~ '^[0-9A-Za-z]{12}$'),
  credential_id text NOT NULL,
  tenant_id     text NOT NULL,
  digest        text NOT NULL UNIQUE CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
  state         text NOT NULL CHECK (state IN ('active', 'retiring', 'suspended', 'expired', 'revoked')),
  resume_state  text CHECK (resume_state IN ('active', 'retiring')),
  seq           bigint NOT NULL CHECK (seq > 0),
  created_at    timestamptz NOT NULL,
  activated_at  timestamptz NOT NULL,
  retiring_at   timestamptz,
  not_after     timestamptz,
  revoked_at    timestamptz,
  revoke_reason text CHECK (revoke_reason IN ('leak', 'offboarding', 'mistake', 'superseded', 'other')),
  ended_at      timestamptz,
  FOREIGN KEY (credential_id, tenant_id) REFERENCES credentials (id, tenant_id),
  UNIQUE (kid, credential_id),
  CONSTRAINT key_versions_suspended CHECK ((state = 'suspended') = (resume_state IS NOT NULL)),
  CONSTRAINT key_versions_revoked CHECK ((state = 'revoked') = (revoked_at IS NOT NULL) AND (state = 'revoked') = (revoke_reason IS NOT NULL)),
  CONSTRAINT key_versions_ended CHECK ((state IN ('expired', 'revoked')) = (ended_at IS NOT NULL)),
  CONSTRAINT key_versions_retiring CHECK (NOT (state = 'retiring' OR coalesce(resume_state, '') = 'retiring') OR (retiring_at IS NOT NULL AND not_after IS NOT NULL))
);
-- A suspended version keeps its slot, so that it can be resumed.
CREATE UNIQUE INDEX key_versions_one_active ON key_versions (credential_id) WHERE state = 'active' OR resume_state = 'active';
CREATE UNIQUE INDEX key_versions_one_retiring ON key_versions (credential_id) WHERE state = 'retiring' OR resume_state = 'retiring';
CREATE INDEX key_versions_page ON key_versions (created_at DESC, kid DESC);
CREATE INDEX key_versions_tenant ON key_versions (tenant_id, created_at DESC, kid DESC);
CREATE INDEX key_versions_due ON key_versions (not_after) WHERE state IN ('active', 'retiring', 'suspended') AND not_after IS NOT NULL;
CREATE TRIGGER key_versions_final BEFORE UPDATE ON key_versions FOR EACH ROW EXECUTE FUNCTION refuse_leaving_final('expired', 'revoked');
CREATE TRIGGER key_versions_kept BEFORE DELETE ON key_versions FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE rotations (
  id              text PRIMARY KEY CHECK (id ~ '^rot_[a-z2-7]{16}$'),
  credential_id   text NOT NULL,
  tenant_id       text NOT NULL,
  old_kid         text NOT NULL,
  new_kid         text NOT NULL,
  state           text NOT NULL CHECK (state IN ('overlap', 'completed', 'forced', 'cancelled')),
  reason          text NOT NULL,
  overlap_seconds bigint NOT NULL CHECK (overlap_seconds BETWEEN 0 AND 7776000),
  old_not_after   timestamptz, -- what a cancelled rotation gives back to the old version
  started_at      timestamptz NOT NULL,
  ends_at         timestamptz NOT NULL CHECK (ends_at >= started_at),
  ended_at        timestamptz CHECK (ended_at >= started_at),
  end_reason      text NOT NULL DEFAULT '',
  extensions      integer NOT NULL DEFAULT 0 CHECK (extensions >= 0),
  FOREIGN KEY (credential_id, tenant_id) REFERENCES credentials (id, tenant_id),
  FOREIGN KEY (old_kid, credential_id) REFERENCES key_versions (kid, credential_id),
  FOREIGN KEY (new_kid, credential_id) REFERENCES key_versions (kid, credential_id),
  CONSTRAINT rotations_two_versions CHECK (old_kid <> new_kid),
  CONSTRAINT rotations_ended CHECK ((state = 'overlap') = (ended_at IS NULL))
);
CREATE UNIQUE INDEX rotations_one_open ON rotations (credential_id) WHERE state = 'overlap';
CREATE INDEX rotations_page ON rotations (started_at DESC, id DESC);
CREATE INDEX rotations_credential ON rotations (credential_id, started_at DESC);
CREATE TRIGGER rotations_final BEFORE UPDATE ON rotations FOR EACH ROW EXECUTE FUNCTION refuse_leaving_final('completed', 'forced', 'cancelled');
CREATE TRIGGER rotations_kept BEFORE DELETE ON rotations FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose Down
DROP TABLE rotations, key_versions, credentials, tenants;
DROP FUNCTION refuse_leaving_final, refuse_change;
