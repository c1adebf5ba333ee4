-- +goose Up
-- The log of decisions that simulations replay: batches as gateways cut them. The oldest are
-- dropped by age and by bytes.

CREATE TABLE decision_batches (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  replica     text NOT NULL CHECK (char_length(replica) BETWEEN 1 AND 64),
  boot        text NOT NULL CHECK (char_length(boot) BETWEEN 1 AND 64),
  seq         bigint NOT NULL CHECK (seq > 0),
  from_at     timestamptz NOT NULL,
  to_at       timestamptz NOT NULL CHECK (to_at BETWEEN from_at AND from_at + interval '1 hour'),
  entries     integer NOT NULL CHECK (entries >= 0),
  sample      integer NOT NULL CHECK (sample BETWEEN 0 AND 65536),
  dropped     bigint NOT NULL CHECK (dropped >= 0),
  unjudged    bigint NOT NULL CHECK (unjudged >= 0),
  received_at timestamptz NOT NULL,
  body        bytea NOT NULL CHECK (octet_length(body) BETWEEN 1 AND 1048576),
  bytes       integer NOT NULL GENERATED ALWAYS AS (octet_length(body)) STORED
);
ALTER TABLE decision_batches ALTER COLUMN body SET STORAGE EXTERNAL; -- it is compressed
-- A batch is taken once, however often it is read.
CREATE UNIQUE INDEX decision_batches_once ON decision_batches (replica, boot, seq);
CREATE INDEX decision_batches_time ON decision_batches (from_at, id);
CREATE INDEX decision_batches_kept ON decision_batches (received_at, id) INCLUDE (bytes);

-- One row: the place in Redis' stream up to which batches are in the table.
CREATE TABLE decision_place (
  one        boolean PRIMARY KEY DEFAULT true CHECK (one),
  place      text NOT NULL DEFAULT '' CHECK (char_length(place) <= 64),
  updated_at timestamptz
);
INSERT INTO decision_place DEFAULT VALUES;

-- +goose Down
DROP TABLE decision_place, decision_batches;
