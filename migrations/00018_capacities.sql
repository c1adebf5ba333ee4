-- +goose Up

-- What a route was measured to take: the result of one ramp. Rates are thousandths
-- of a request a second, times µs. version is the policy in force then; 0 is none.
CREATE TABLE capacities (
  id           text PRIMARY KEY CHECK (id ~ '^cap_[a-z2-7]{16}$'),
  route        text NOT NULL CHECK (route <> ''),
  target       text NOT NULL CHECK (target <> ''),
  version      bigint NOT NULL CHECK (version >= 0),
  knee_milli   bigint NOT NULL CHECK (knee_milli >= 0),
  beyond_milli bigint NOT NULL CHECK (beyond_milli >= 0),
  plateau_us   bigint NOT NULL CHECK (plateau_us >= 0),
  p99_us       bigint NOT NULL CHECK (p99_us >= 0),
  ended        text NOT NULL CHECK (ended <> ''),
  why          text NOT NULL,
  method       text NOT NULL,
  note         text NOT NULL,
  steps        json NOT NULL,
  measured_at  timestamptz NOT NULL,
  author_id    text NOT NULL,
  author       text NOT NULL,
  created_at   timestamptz NOT NULL
);

CREATE INDEX capacities_route ON capacities (route, measured_at DESC, id DESC);
CREATE INDEX capacities_newest ON capacities (measured_at DESC, id DESC);

CREATE TRIGGER capacities_stay BEFORE UPDATE OR DELETE ON capacities FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose Down
DROP TABLE capacities;
