-- +goose Up
-- Jobs over many rows: what they are about, how far they are, and what became of each row.

CREATE TABLE bulk_jobs (
  num             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id              text NOT NULL UNIQUE CHECK (id ~ '^blk_[a-z2-7]{16}$'),
  kind            text NOT NULL CHECK (kind IN ('import-tenants', 'import-keys', 'revoke-unused', 'set-expiry', 'change-plan')),
  state           text NOT NULL CHECK (state IN ('checking', 'ready', 'running', 'done', 'cancelled', 'failed')),
  name            text NOT NULL CHECK (char_length(name) <= 200),
  reason          text NOT NULL,
  selection       json NOT NULL,
  author          text NOT NULL,
  author_id       text NOT NULL,
  author_role     text NOT NULL,
  author_via      text NOT NULL,
  idempotency_key text CHECK (char_length(idempotency_key) BETWEEN 1 AND 255),
  input_digest    text NOT NULL DEFAULT '', -- SHA-256 of the whole input, once it is there
  loaded          boolean NOT NULL DEFAULT false,
  gathered        text NOT NULL DEFAULT '', -- id up to which a selection was gathered
  total           bigint NOT NULL DEFAULT 0 CHECK (total >= 0),
  unreadable      bigint NOT NULL DEFAULT 0, -- rows that are bad by themselves, whatever else there is
  place           bigint NOT NULL DEFAULT 0, -- line up to which it was checked, then run
  checked         bigint NOT NULL DEFAULT 0,
  would_do        bigint NOT NULL DEFAULT 0,
  would_skip      bigint NOT NULL DEFAULT 0,
  bad             bigint NOT NULL DEFAULT 0,
  done            bigint NOT NULL DEFAULT 0,
  failed          bigint NOT NULL DEFAULT 0,
  steps           bigint NOT NULL DEFAULT 0, -- that were run
  problem         text NOT NULL DEFAULT '',
  rows_kept       boolean NOT NULL DEFAULT true,
  lease_owner     text NOT NULL DEFAULT '',
  lease_until     timestamptz,
  created_at      timestamptz NOT NULL,
  checked_at      timestamptz,
  started_at      timestamptz,
  started_by      text NOT NULL DEFAULT '',
  started_role    text NOT NULL DEFAULT '',
  started_by_id   text NOT NULL DEFAULT '',
  ended_at        timestamptz,
  ended_by        text NOT NULL DEFAULT '',
  CONSTRAINT bulk_jobs_ended CHECK ((state IN ('done', 'cancelled', 'failed')) = (ended_at IS NOT NULL)),
  CONSTRAINT bulk_jobs_loaded CHECK (state IN ('checking', 'cancelled', 'failed') OR loaded)
);
CREATE UNIQUE INDEX bulk_jobs_once ON bulk_jobs (author_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX bulk_jobs_page ON bulk_jobs (created_at DESC, id DESC);
CREATE INDEX bulk_jobs_work ON bulk_jobs (lease_until NULLS FIRST, num) WHERE state IN ('checking', 'running');
CREATE INDEX bulk_jobs_old ON bulk_jobs (ended_at) WHERE rows_kept AND ended_at IS NOT NULL;
CREATE TRIGGER bulk_jobs_final BEFORE UPDATE ON bulk_jobs FOR EACH ROW EXECUTE FUNCTION refuse_leaving_final('done', 'cancelled', 'failed');

-- What the job is about, as it was read. A row is written once; what became of it is in bulk_marks,
-- or, where there is no mark, in the job's place: before it done (or would be done), behind it not yet.
CREATE TABLE bulk_rows (
  job         bigint NOT NULL REFERENCES bulk_jobs (num),
  line        bigint NOT NULL CHECK (line > 0),
  subject     text NOT NULL, -- kid, tenant or external id
  object_id   text NOT NULL, -- that it makes or changes
  tenant      text NOT NULL, -- id or external id
  name        text NOT NULL,
  environment text NOT NULL,
  digest      bytea,
  scopes      text[] NOT NULL,
  expires_at  timestamptz,
  plan        text NOT NULL,
  time_zone   text NOT NULL,
  note        text NOT NULL, -- what changes, in words
  PRIMARY KEY (job, line)
);
CREATE INDEX bulk_rows_subject ON bulk_rows (job, subject) WHERE subject <> '';
CREATE INDEX bulk_rows_digest ON bulk_rows (job, digest) WHERE digest IS NOT NULL;

-- Rows that are not simply done.
CREATE TABLE bulk_marks (
  job        bigint NOT NULL REFERENCES bulk_jobs (num),
  line       bigint NOT NULL,
  outcome    text NOT NULL CHECK (outcome IN ('would-skip', 'bad', 'failed')),
  message    text NOT NULL,
  unreadable boolean NOT NULL DEFAULT false, -- bad whatever else there is; a new check keeps it
  PRIMARY KEY (job, line)
);
CREATE INDEX bulk_marks_outcome ON bulk_marks (job, outcome, line);

-- +goose Down
DROP TABLE bulk_marks, bulk_rows, bulk_jobs;
