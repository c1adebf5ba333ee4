-- +goose Up
-- Drafts, published versions, their head and the outbox to the gateways.

CREATE TABLE drafts (
  id         text PRIMARY KEY CHECK (id ~ '^drf_[a-z2-7]{16}$'),
  name       text NOT NULL CHECK (name = btrim(name) AND char_length(name) BETWEEN 1 AND 120),
  base       bigint NOT NULL CHECK (base >= 0),
  source     text NOT NULL CHECK (octet_length(source) <= 8388608),
  etag       text NOT NULL CHECK (etag <> ''),
  author_id  text NOT NULL,
  author     text NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX drafts_page ON drafts (updated_at DESC, id DESC);

CREATE TABLE policy_versions (
  number      bigint PRIMARY KEY CHECK (number > 0),
  digest      text NOT NULL,
  parent      text NOT NULL CHECK (parent = '' OR parent ~ '^sha256:[0-9a-f]{64}$'),
  body        bytea NOT NULL CHECK (octet_length(body) BETWEEN 1 AND 8388608),
  changes     json NOT NULL,
  note        text NOT NULL CHECK (char_length(note) <= 2000),
  author_id   text NOT NULL,
  author      text NOT NULL,
  kind        text NOT NULL CHECK (kind IN ('publish', 'rollback')),
  rollback_of bigint REFERENCES policy_versions (number),
  created_at  timestamptz NOT NULL,
  CONSTRAINT policy_versions_digest CHECK (digest = 'sha256:' || encode(sha256(body), 'hex')),
  CONSTRAINT policy_versions_rollback CHECK ((kind = 'rollback') = (rollback_of IS NOT NULL)),
  CONSTRAINT policy_versions_rollback_earlier CHECK (rollback_of < number)
);
CREATE TRIGGER policy_versions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON policy_versions
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- One row: the version in force. Publishing locks it.
CREATE TABLE policy_head (
  one        boolean PRIMARY KEY DEFAULT true CHECK (one),
  number     bigint REFERENCES policy_versions (number),
  updated_at timestamptz
);
INSERT INTO policy_head DEFAULT VALUES;

-- +goose StatementBegin
CREATE FUNCTION refuse_head_going_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.number IS NOT NULL AND (NEW.number IS NULL OR NEW.number <= OLD.number) THEN
    RAISE EXCEPTION 'policy_head: version % does not follow %', NEW.number, OLD.number USING ERRCODE = 'check_violation', CONSTRAINT = 'policy_head_grows';
  END IF;
  RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER policy_head_grows BEFORE UPDATE ON policy_head FOR EACH ROW EXECUTE FUNCTION refuse_head_going_back();
CREATE TRIGGER policy_head_kept BEFORE DELETE OR TRUNCATE ON policy_head FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What a committed change has to tell the gateways. ref is a version's number, a kid or a tenant's id.
CREATE TABLE outbox (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind       text NOT NULL CHECK (kind IN ('policy', 'key', 'tenant')),
  ref        text NOT NULL,
  created_at timestamptz NOT NULL,
  done_at    timestamptz,
  epoch      text NOT NULL DEFAULT '',
  seq        bigint NOT NULL DEFAULT 0,
  result     text NOT NULL DEFAULT '',
  attempts   integer NOT NULL DEFAULT 0,
  last_error text NOT NULL DEFAULT ''
);
CREATE INDEX outbox_pending ON outbox (id) WHERE done_at IS NULL;
CREATE INDEX outbox_done ON outbox (done_at) WHERE done_at IS NOT NULL;

-- One row: the place in the directory's change stream that the relay has reached. A Redis that is
-- elsewhere has been lost, replaced or rewound.
CREATE TABLE feed_place (
  one        boolean PRIMARY KEY DEFAULT true CHECK (one),
  epoch      text NOT NULL DEFAULT '',
  seq        bigint NOT NULL DEFAULT 0,
  updated_at timestamptz
);
INSERT INTO feed_place DEFAULT VALUES;

-- +goose StatementBegin
CREATE FUNCTION ring_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('headgate_outbox', '');
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER outbox_rings AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION ring_outbox();

-- +goose Down
DROP TABLE feed_place, outbox, policy_head, policy_versions, drafts;
DROP FUNCTION ring_outbox, refuse_head_going_back;
