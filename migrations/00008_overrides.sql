-- +goose Up
-- Tenants' own values and boosts, what else there is to say of a tenant, and two more roles.

ALTER TABLE operators DROP CONSTRAINT operators_role_check;
ALTER TABLE operators ADD CONSTRAINT operators_role_check
  CHECK (role IN ('viewer', 'support', 'auditor', 'editor', 'publisher', 'key-admin', 'owner'));

ALTER TABLE tenants
  ADD COLUMN quota_anchor text NOT NULL DEFAULT '' CHECK (quota_anchor ~ '^([0-9]{4}-[0-9]{2}-[0-9]{2})?$'), -- where anniversaries count from
  ADD COLUMN contacts text[] NOT NULL DEFAULT '{}' CHECK (cardinality(contacts) <= 10);
CREATE INDEX tenants_name ON tenants (lower(name), id) WHERE state <> 'deleted';

-- A tenant's own value for one limit, or a boost of it. Those without an end hold, until their time is over.
CREATE TABLE overrides (
  id           text PRIMARY KEY CHECK (id ~ '^ovr_[a-z2-7]{16}$'),
  tenant_id    text NOT NULL REFERENCES tenants (id),
  limit_id     text NOT NULL CHECK (char_length(limit_id) BETWEEN 1 AND 160),
  kind         text NOT NULL CHECK (kind IN ('override', 'boost')),
  rate         text NOT NULL DEFAULT '' CHECK (char_length(rate) <= 64),
  burst        bigint CHECK (burst >= 0),
  amount       bigint CHECK (amount >= 0),
  most         bigint CHECK (most >= 0),
  factor_milli bigint CHECK (factor_milli BETWEEN 1001 AND 1000000),
  reason       text NOT NULL CHECK (char_length(reason) BETWEEN 1 AND 500),
  author_id    text NOT NULL,
  author       text NOT NULL,
  created_at   timestamptz NOT NULL,
  expires_at   timestamptz CHECK (expires_at > created_at),
  ended_at     timestamptz CHECK (ended_at >= created_at),
  ended_by     text NOT NULL DEFAULT '',
  end_reason   text NOT NULL DEFAULT '' CHECK (char_length(end_reason) <= 500),
  CONSTRAINT overrides_boost CHECK (kind = 'override' OR (factor_milli IS NOT NULL AND expires_at IS NOT NULL
    AND rate = '' AND burst IS NULL AND amount IS NULL AND most IS NULL)),
  CONSTRAINT overrides_value CHECK (kind = 'boost' OR (factor_milli IS NULL
    AND (rate <> '' OR burst IS NOT NULL OR amount IS NOT NULL OR most IS NOT NULL))),
  CONSTRAINT overrides_ended CHECK ((ended_at IS NULL) = (end_reason = ''))
);
CREATE UNIQUE INDEX overrides_one_live ON overrides (tenant_id, limit_id, kind) WHERE ended_at IS NULL;
CREATE INDEX overrides_page ON overrides (created_at DESC, id DESC);
CREATE INDEX overrides_live ON overrides (created_at DESC, id DESC) WHERE ended_at IS NULL;
CREATE INDEX overrides_tenant ON overrides (tenant_id, created_at DESC, id DESC);
CREATE INDEX overrides_limit ON overrides (limit_id, created_at DESC, id DESC);
CREATE INDEX overrides_due ON overrides (expires_at, id) WHERE ended_at IS NULL AND expires_at IS NOT NULL;

-- What has ended stays as it was; what holds can get another end and no other value.
-- +goose StatementBegin
CREATE FUNCTION keep_overrides() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.ended_at IS NOT NULL THEN
    RAISE EXCEPTION 'overrides: it has ended' USING ERRCODE = 'check_violation', CONSTRAINT = 'overrides_final';
  END IF;
  IF (NEW.id, NEW.tenant_id, NEW.limit_id, NEW.kind, NEW.rate, NEW.burst, NEW.amount, NEW.most, NEW.factor_milli, NEW.created_at)
    IS DISTINCT FROM (OLD.id, OLD.tenant_id, OLD.limit_id, OLD.kind, OLD.rate, OLD.burst, OLD.amount, OLD.most, OLD.factor_milli, OLD.created_at) THEN
    RAISE EXCEPTION 'overrides: the value stays' USING ERRCODE = 'check_violation', CONSTRAINT = 'overrides_value_stays';
  END IF;
  RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER overrides_final BEFORE UPDATE ON overrides FOR EACH ROW EXECUTE FUNCTION keep_overrides();
CREATE TRIGGER overrides_kept BEFORE DELETE ON overrides FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose Down
DROP TABLE overrides;
DROP FUNCTION keep_overrides;
DROP INDEX tenants_name;
ALTER TABLE tenants DROP COLUMN quota_anchor, DROP COLUMN contacts;
ALTER TABLE operators DROP CONSTRAINT operators_role_check;
ALTER TABLE operators ADD CONSTRAINT operators_role_check
  CHECK (role IN ('viewer', 'editor', 'publisher', 'key-admin', 'owner')) NOT VALID; -- those with the others stay
