-- +goose Up

-- What became of a version: when all gateways that were there enforced it, as a
-- console first saw it, and what was refused around its publication. Null is
-- unknown. policy_versions itself is never written again.
CREATE TABLE version_effects (
  number          bigint PRIMARY KEY REFERENCES policy_versions (number),
  replicas        integer CHECK (replicas > 0),
  after_ms        bigint CHECK (after_ms >= 0 AND (after_ms IS NULL) = (replicas IS NULL)),
  before_requests bigint CHECK (before_requests >= 0),
  before_refused  bigint CHECK (before_refused BETWEEN 0 AND before_requests),
  after_requests  bigint CHECK (after_requests >= 0),
  after_refused   bigint CHECK (after_refused BETWEEN 0 AND after_requests),
  judged          boolean NOT NULL DEFAULT false,
  updated_at      timestamptz NOT NULL
);

-- The page of a draft that was published leads to its version.
CREATE INDEX policy_versions_draft ON policy_versions ((proof ->> 'draft')) WHERE proof ->> 'draft' IS NOT NULL;

-- +goose Down
DROP INDEX policy_versions_draft;
DROP TABLE version_effects;
