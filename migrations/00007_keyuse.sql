-- +goose Up
-- Who uses which key version, as gateways tell it. No bill rests on it: what Redis loses before
-- a console has read it is missing here. Times are those of Redis' clock.

-- A source is a network (/24 or /48, '' for the rest of a key) with the product names of a user agent.
CREATE TABLE key_sources (
  kid          text NOT NULL REFERENCES key_versions (kid),
  tenant_id    text NOT NULL,
  network      text NOT NULL CHECK (char_length(network) <= 43),
  agent        text NOT NULL CHECK (char_length(agent) <= 60),
  first_seen   timestamptz NOT NULL,
  last_seen    timestamptz NOT NULL CHECK (last_seen >= first_seen),
  longest_gap  bigint NOT NULL DEFAULT 0 CHECK (longest_gap >= 0), -- seconds between two times that it was seen
  requests     bigint NOT NULL CHECK (requests >= 0),              -- with the key's right secret
  limited      bigint NOT NULL CHECK (limited >= 0),               -- of them: refused although the key was accepted
  refused      bigint NOT NULL CHECK (refused >= 0),               -- of them: the key was not accepted
  used_at      timestamptz,                                        -- accepted for the last time
  refused_at   timestamptz,                                        -- not accepted for the last time
  -- The index of the retention is on the day alone, so that most updates touch no index.
  last_day     date NOT NULL GENERATED ALWAYS AS ((last_seen AT TIME ZONE 'UTC')::date) STORED,
  PRIMARY KEY (kid, network, agent)
) WITH (fillfactor = 80);
CREATE INDEX key_sources_old ON key_sources (last_day);
CREATE INDEX key_sources_tenant ON key_sources (tenant_id);

-- One row a key version that was ever used since gateways tell.
CREATE TABLE key_use (
  kid             text PRIMARY KEY REFERENCES key_versions (kid),
  tenant_id       text NOT NULL,
  first_used_at   timestamptz,
  last_used_at    timestamptz CHECK (last_used_at >= first_used_at),
  last_network    text NOT NULL DEFAULT '' CHECK (char_length(last_network) <= 43), -- of last_used_at
  last_agent      text NOT NULL DEFAULT '' CHECK (char_length(last_agent) <= 60),
  refused_at      timestamptz,
  refused_network text NOT NULL DEFAULT '' CHECK (char_length(refused_network) <= 43), -- of refused_at
  refused_agent   text NOT NULL DEFAULT '' CHECK (char_length(refused_agent) <= 60),
  alarmed_at      timestamptz, -- of the last audit event that it was used after it was revoked
  CONSTRAINT key_use_told CHECK (last_used_at IS NOT NULL OR refused_at IS NOT NULL)
) WITH (fillfactor = 80);
CREATE INDEX key_use_tenant ON key_use (tenant_id);

CREATE TABLE key_use_hours (
  kid      text NOT NULL REFERENCES key_versions (kid),
  hour     timestamptz NOT NULL,
  requests bigint NOT NULL CHECK (requests >= 0),
  limited  bigint NOT NULL CHECK (limited >= 0),
  refused  bigint NOT NULL CHECK (refused >= 0),
  PRIMARY KEY (kid, hour)
) WITH (fillfactor = 80);
CREATE INDEX key_use_hours_old ON key_use_hours (hour);

-- How far each run of a gateway has told. A batch is taken once: seq only grows.
CREATE TABLE key_use_replicas (
  replica      text NOT NULL CHECK (char_length(replica) BETWEEN 1 AND 64),
  boot         text NOT NULL CHECK (char_length(boot) BETWEEN 1 AND 64),
  seq          bigint NOT NULL CHECK (seq > 0),
  through      timestamptz NOT NULL,
  final        boolean NOT NULL,  -- it ended in order and has told everything
  missing_from timestamptz,       -- the last stretch of which batches did not arrive, or counts had no room
  missing_to   timestamptz CHECK (missing_to >= missing_from),
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (replica, boot)
);

-- One row: the place in Redis' stream up to which batches are counted, and since when any are.
CREATE TABLE key_use_place (
  one        boolean PRIMARY KEY DEFAULT true CHECK (one),
  place      text NOT NULL DEFAULT '' CHECK (char_length(place) <= 64),
  since      timestamptz,
  updated_at timestamptz
);
INSERT INTO key_use_place DEFAULT VALUES;

-- +goose Down
DROP TABLE key_use_place, key_use_replicas, key_use_hours, key_use, key_sources;
