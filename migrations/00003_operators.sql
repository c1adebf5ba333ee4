-- +goose Up
-- Operators, their sessions and tokens, idempotency keys and the audit trail.

CREATE TABLE operators (
  id            text PRIMARY KEY CHECK (id ~ '^opr_[a-z2-7]{16}$'),
  email         text NOT NULL CHECK (email ~ '^[^@[:space:]]+@[^@[:space:]]+$' AND char_length(email) <= 254),
  name          text NOT NULL CHECK (name = btrim(name) AND char_length(name) BETWEEN 1 AND 120),
  role          text NOT NULL CHECK (role IN ('viewer', 'editor', 'publisher', 'key-admin', 'owner')),
  password_hash text NOT NULL DEFAULT '' CHECK (password_hash = '' OR password_hash LIKE '$argon2id$%'),
  created_at    timestamptz NOT NULL,
  disabled_at   timestamptz
);
CREATE UNIQUE INDEX operators_email ON operators (lower(email));
CREATE TRIGGER operators_kept BEFORE DELETE ON operators FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The last enabled owner stays. The lock makes two demotions at once follow each other,
-- so that the second one sees the first.
-- +goose StatementBegin
CREATE FUNCTION keep_an_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.role = 'owner' AND OLD.disabled_at IS NULL AND (NEW.role <> 'owner' OR NEW.disabled_at IS NOT NULL) THEN
    PERFORM pg_advisory_xact_lock(7234001);
    IF NOT EXISTS (SELECT 1 FROM operators WHERE role = 'owner' AND disabled_at IS NULL) THEN
      RAISE EXCEPTION 'operators: the last owner stays' USING ERRCODE = 'check_violation', CONSTRAINT = 'operators_last_owner';
    END IF;
  END IF;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER operators_last_owner AFTER UPDATE ON operators FOR EACH ROW EXECUTE FUNCTION keep_an_owner();

CREATE TABLE sessions (
  hash        text PRIMARY KEY CHECK (hash ~ '^[0-9a-f]{64}$'),
  operator_id text NOT NULL REFERENCES operators (id),
  data        bytea NOT NULL CHECK (octet_length(data) <= 65536),
  ip          text NOT NULL,
  user_agent  text NOT NULL CHECK (char_length(user_agent) <= 400),
  created_at  timestamptz NOT NULL,
  seen_at     timestamptz NOT NULL,
  expires_at  timestamptz NOT NULL CHECK (expires_at > created_at AND expires_at <= created_at + interval '12 hours')
);
CREATE INDEX sessions_operator ON sessions (operator_id, seen_at DESC);
CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE api_tokens (
  kid          text PRIMARY KEY CHECK (kid ~ '^[0-9A-Za-z]{12}$'),
  operator_id  text NOT NULL REFERENCES operators (id),
  name         text NOT NULL CHECK (name = btrim(name) AND char_length(name) BETWEEN 1 AND 120),
  digest       text NOT NULL UNIQUE CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
  created_at   timestamptz NOT NULL,
  expires_at   timestamptz CHECK (expires_at > created_at),
  revoked_at   timestamptz,
  last_used_at timestamptz
);
CREATE INDEX api_tokens_operator ON api_tokens (operator_id, created_at DESC);

CREATE TABLE idempotency_keys (
  actor_id    text NOT NULL,
  scope       text NOT NULL,
  key         text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 255),
  fingerprint text NOT NULL,
  answer      bytea,
  created_at  timestamptz NOT NULL,
  expires_at  timestamptz NOT NULL,
  PRIMARY KEY (actor_id, scope, key)
);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

-- json, not jsonb: the hash is over the text as it was written.
CREATE TABLE audit_events (
  seq        bigint PRIMARY KEY CHECK (seq > 0),
  at         timestamptz NOT NULL,
  actor_id   text NOT NULL,
  actor      text NOT NULL,
  role       text NOT NULL,
  via        text NOT NULL CHECK (via IN ('console', 'api', 'cli', 'system')),
  action     text NOT NULL CHECK (action ~ '^[a-z-]+\.[a-z-]+$'),
  object     text NOT NULL,
  object_id  text NOT NULL,
  tenant_id  text NOT NULL DEFAULT '',
  before     json,
  after      json,
  changes    json,
  reason     text NOT NULL DEFAULT '',
  ip         text NOT NULL DEFAULT '',
  request_id text NOT NULL DEFAULT '',
  prev_hash  bytea NOT NULL CHECK (octet_length(prev_hash) = 32),
  hash       bytea NOT NULL CHECK (octet_length(hash) = 32),
  CONSTRAINT audit_events_no_fork UNIQUE (prev_hash),
  CONSTRAINT audit_events_one_hash UNIQUE (hash)
);
CREATE INDEX audit_events_tenant ON audit_events (tenant_id, seq DESC) WHERE tenant_id <> '';
CREATE INDEX audit_events_object ON audit_events (object, object_id, seq DESC);
CREATE INDEX audit_events_actor ON audit_events (actor_id, seq DESC);
CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_events
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose Down
DROP TABLE audit_events, idempotency_keys, api_tokens, sessions, operators;
DROP FUNCTION keep_an_owner;
