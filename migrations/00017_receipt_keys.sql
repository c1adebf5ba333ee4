-- +goose Up

-- Public keys that replicas sign receipts with, as heartbeats told them: a receipt is
-- checked with the key that it names, also when its replica is long gone. They belong to
-- no tenant.
CREATE TABLE receipt_keys (
  public_key  bytea PRIMARY KEY CHECK (octet_length(public_key) = 32),
  key_id      text NOT NULL CHECK (key_id ~ '^[0-9a-f]{16}$'),
  replica     text NOT NULL,
  host        text NOT NULL,
  first_seen  timestamptz NOT NULL,
  last_seen   timestamptz NOT NULL CHECK (last_seen >= first_seen)
);
CREATE INDEX receipt_keys_id ON receipt_keys (key_id);

-- +goose Down
DROP TABLE receipt_keys;
