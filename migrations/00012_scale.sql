-- +goose Up
-- What lists, searches and the relay need with 10^5 tenants and 10^6 keys.

-- The words of a name, in lower case: whatever stands between ASCII blanks and punctuation. A text
-- search parser would make e-mail addresses, hosts and paths of some of them.
-- +goose StatementBegin
CREATE FUNCTION search_words(name text) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT array_to_tsvector(array_remove(regexp_split_to_array(lower(name), '[\s\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u007e]+'), ''))
$$;
-- +goose StatementEnd

-- Names in which each word of q begins a word; no name when q has no word.
-- +goose StatementBegin
CREATE FUNCTION search_query(q text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(string_agg('''' || w || ''':*', ' & '), '')::tsquery
  FROM unnest(regexp_split_to_array(lower(q), '[\s\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u007e]+')) w WHERE w <> ''
$$;
-- +goose StatementEnd

-- What the planner expects a query to return. The query is never a user's text.
-- +goose StatementBegin
CREATE FUNCTION estimated_rows(query text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  plan json;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
  RETURN (plan->0->'Plan'->>'Plan Rows')::bigint;
END $$;
-- +goose StatementEnd

-- Where a search begins: some of those that q names, by the index of words and by no other way. The
-- planner knows too little of words to be left the choice: it takes a name that nobody has for a
-- common one, and walks the table for it.
-- +goose StatementBegin
CREATE FUNCTION search_tenants(q text, most integer) RETURNS SETOF text LANGUAGE sql STABLE
  SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
  SELECT id FROM tenants WHERE search_words(name) @@ search_query(q) OR id = q OR external_id = q LIMIT most
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION search_credentials(q text, most integer) RETURNS SETOF text LANGUAGE sql STABLE
  SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
  SELECT id FROM credentials WHERE search_words(name) @@ search_query(q) LIMIT most
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION search_members(q text, most integer) RETURNS SETOF text LANGUAGE sql STABLE
  SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
  SELECT id FROM members WHERE search_words(name || ' ' || email) @@ search_query(q) LIMIT most
$$;
-- +goose StatementEnd

CREATE INDEX tenants_words ON tenants USING gin (search_words(name));
CREATE INDEX tenants_external ON tenants (external_id);
CREATE INDEX tenants_state_page ON tenants (state, created_at DESC, id DESC);
CREATE INDEX tenants_plan_page ON tenants (plan, state, created_at DESC, id DESC);

CREATE INDEX credentials_words ON credentials USING gin (search_words(name));
CREATE INDEX credentials_environment ON credentials (environment, created_at DESC, id DESC);

CREATE INDEX key_versions_credential ON key_versions (credential_id, created_at DESC, kid DESC);
CREATE INDEX key_versions_state_page ON key_versions (state, created_at DESC, kid DESC);

CREATE INDEX rotations_open_page ON rotations (started_at DESC, id DESC) WHERE state = 'overlap';
CREATE INDEX rotations_due ON rotations (ends_at) WHERE state = 'overlap';

CREATE INDEX audit_events_action ON audit_events (action, seq DESC);
CREATE INDEX audit_events_family ON audit_events (split_part(action, '.', 1), seq DESC);
CREATE INDEX audit_events_kind ON audit_events (object, seq DESC);
CREATE INDEX members_words ON members USING gin (search_words(name || ' ' || email));

-- Rows of a bulk job: the relay sends all others first, so that a revocation never waits behind an
-- import, and removes them once they are sent.
ALTER TABLE outbox ADD COLUMN bulk boolean NOT NULL DEFAULT false;
DROP INDEX outbox_pending;
CREATE INDEX outbox_pending ON outbox (bulk, id) WHERE done_at IS NULL;
-- It is short and turns over fast: a scan for what is pending must not wade through the dead.
ALTER TABLE outbox SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.1);

-- +goose Down
DROP INDEX outbox_pending;
ALTER TABLE outbox DROP COLUMN bulk;
CREATE INDEX outbox_pending ON outbox (id) WHERE done_at IS NULL;
ALTER TABLE outbox RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_insert_scale_factor);
DROP INDEX members_words, audit_events_kind, audit_events_family, audit_events_action, rotations_due, rotations_open_page,
  key_versions_state_page, key_versions_credential, credentials_environment, credentials_words,
  tenants_plan_page, tenants_state_page, tenants_external, tenants_words;
DROP FUNCTION search_members, search_credentials, search_tenants, estimated_rows, search_query, search_words;
