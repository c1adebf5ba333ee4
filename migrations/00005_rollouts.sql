-- +goose Up
-- Canaries, versions taken over from Redis, and what replicas say when Redis cannot carry it.

ALTER TABLE policy_versions DROP CONSTRAINT policy_versions_kind_check;
ALTER TABLE policy_versions ADD CONSTRAINT policy_versions_kind_check CHECK (kind IN ('publish', 'rollback', 'adopt'));

ALTER TABLE outbox DROP CONSTRAINT outbox_kind_check;
ALTER TABLE outbox ADD CONSTRAINT outbox_kind_check CHECK (kind IN ('policy', 'key', 'tenant', 'canary'));

-- A version that few replicas enforce before all others. The version itself stands in policy_versions,
-- above the head until it is promoted.
CREATE TABLE rollouts (
  version          bigint PRIMARY KEY REFERENCES policy_versions (number),
  base             bigint NOT NULL CHECK (base > 0),
  canary_count     integer NOT NULL CHECK (canary_count >= 0),
  zone             text NOT NULL,
  hold_ms          bigint NOT NULL CHECK (hold_ms >= 0),
  promote          boolean NOT NULL,
  max_refused_rise double precision NOT NULL CHECK (max_refused_rise >= 0 AND max_refused_rise <= 1),
  replicas         text[] NOT NULL CHECK (cardinality(replicas) BETWEEN 1 AND 1000),
  state            text NOT NULL CHECK (state IN ('running', 'promoted', 'stopped')),
  author_id        text NOT NULL,
  author           text NOT NULL,
  started_at       timestamptz NOT NULL,
  ended_at         timestamptz,
  end_reason       text NOT NULL DEFAULT '' CHECK (char_length(end_reason) <= 2000),
  ended_by         text NOT NULL DEFAULT '',
  successor        bigint NOT NULL DEFAULT 0,
  CONSTRAINT rollouts_above_base CHECK (version > base),
  CONSTRAINT rollouts_ended CHECK ((state = 'running') = (ended_at IS NULL))
);
-- One at a time.
CREATE UNIQUE INDEX rollouts_running ON rollouts (state) WHERE state = 'running';

-- +goose StatementBegin
CREATE FUNCTION refuse_ended_rollout() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state <> 'running' THEN
    RAISE EXCEPTION 'rollouts: the canary of version % has ended', OLD.version USING ERRCODE = 'check_violation', CONSTRAINT = 'rollouts_final';
  END IF;
  RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER rollouts_final BEFORE UPDATE ON rollouts FOR EACH ROW EXECUTE FUNCTION refuse_ended_rollout();
CREATE TRIGGER rollouts_kept BEFORE DELETE OR TRUNCATE ON rollouts FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The last heartbeat of each replica by one of two ways: brought to a console by the replica itself
-- (https), or seen in Redis by a console (redis). Nothing is lost with it, so it is not logged.
CREATE UNLOGGED TABLE gateway_beats (
  id      text NOT NULL CHECK (char_length(id) BETWEEN 1 AND 64),
  via     text NOT NULL CHECK (via IN ('https', 'redis')),
  boot    text NOT NULL,
  beat    json NOT NULL CHECK (octet_length(beat::text) <= 16384),
  seen_at timestamptz NOT NULL,
  PRIMARY KEY (id, via)
);
CREATE INDEX gateway_beats_seen ON gateway_beats (seen_at);

-- +goose Down
DROP TABLE gateway_beats, rollouts;
DROP FUNCTION refuse_ended_rollout;
DELETE FROM outbox WHERE kind = 'canary';
ALTER TABLE outbox DROP CONSTRAINT outbox_kind_check;
ALTER TABLE outbox ADD CONSTRAINT outbox_kind_check CHECK (kind IN ('policy', 'key', 'tenant'));
ALTER TABLE policy_versions DROP CONSTRAINT policy_versions_kind_check;
ALTER TABLE policy_versions ADD CONSTRAINT policy_versions_kind_check CHECK (kind IN ('publish', 'rollback')) NOT VALID; -- adopted ones stay
