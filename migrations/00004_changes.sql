-- +goose Up
-- What a change goes through from draft to version: tests, writers, comments, approvals, schedules,
-- simulations, and the reviews of what was published without approvals.

ALTER TABLE drafts ADD COLUMN tests text NOT NULL DEFAULT '' CHECK (octet_length(tests) <= 1048576);

-- What a version was published with, and what that rested on.
ALTER TABLE policy_versions ADD COLUMN tests text NOT NULL DEFAULT '' CHECK (octet_length(tests) <= 1048576);
ALTER TABLE policy_versions ADD COLUMN proof jsonb NOT NULL DEFAULT '{}';

-- Who wrote in a draft, which keeps them from approving it, and how many of their saves the audit
-- trail has not told yet: a run of saves by one person is told by its first and by one summary.
CREATE TABLE draft_writers (
  draft_id   text NOT NULL REFERENCES drafts (id) ON DELETE CASCADE,
  actor_id   text NOT NULL,
  actor      text NOT NULL,
  role       text NOT NULL,
  via        text NOT NULL,
  ip         text NOT NULL DEFAULT '',
  request_id text NOT NULL DEFAULT '',
  logged_at  timestamptz NOT NULL,
  untold     integer NOT NULL DEFAULT 0 CHECK (untold >= 0),
  before     json,
  PRIMARY KEY (draft_id, actor_id),
  CONSTRAINT draft_writers_untold CHECK ((untold > 0) = (before IS NOT NULL))
);
CREATE INDEX draft_writers_untold_since ON draft_writers (logged_at) WHERE untold > 0;
-- Drafts from before know their writers by the audit trail.
INSERT INTO draft_writers (draft_id, actor_id, actor, role, via, logged_at)
SELECT DISTINCT ON (e.object_id, e.actor_id) e.object_id, e.actor_id, e.actor, e.role, e.via, e.at
FROM audit_events e JOIN drafts d ON d.id = e.object_id
WHERE e.object = 'draft' AND e.action IN ('draft.create', 'draft.save', 'draft.rebase')
ORDER BY e.object_id, e.actor_id, e.seq DESC;

-- Kept when the draft is published: the version names the draft.
CREATE TABLE draft_comments (
  id         text PRIMARY KEY CHECK (id ~ '^cmt_[a-z2-7]{16}$'),
  draft_id   text NOT NULL,
  author_id  text NOT NULL,
  author     text NOT NULL,
  body       text NOT NULL CHECK (char_length(body) BETWEEN 1 AND 2000),
  created_at timestamptz NOT NULL
);
CREATE INDEX draft_comments_draft ON draft_comments (draft_id, created_at, id);

-- Each person's last word. It counts only for exactly this digest and base, which is looked at when it is read.
CREATE TABLE draft_approvals (
  draft_id   text NOT NULL REFERENCES drafts (id) ON DELETE CASCADE,
  actor_id   text NOT NULL CHECK (actor_id <> ''),
  actor      text NOT NULL,
  digest     text NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
  base       bigint NOT NULL CHECK (base >= 0),
  note       text NOT NULL CHECK (char_length(note) <= 2000),
  created_at timestamptz NOT NULL,
  PRIMARY KEY (draft_id, actor_id)
);
CREATE INDEX draft_approvals_content ON draft_approvals (digest, base);

CREATE TABLE draft_schedules (
  draft_id   text PRIMARY KEY REFERENCES drafts (id) ON DELETE CASCADE,
  etag       text NOT NULL,
  at         timestamptz NOT NULL,
  note       text NOT NULL CHECK (char_length(note) <= 2000),
  options    jsonb NOT NULL,
  author_id  text NOT NULL CHECK (author_id <> ''),
  author     text NOT NULL,
  created_at timestamptz NOT NULL,
  suspended  text NOT NULL DEFAULT '' CHECK (char_length(suspended) <= 2000)
);

-- Publications by break-glass. Somebody other than the author closes them, once.
CREATE TABLE policy_reviews (
  version    bigint PRIMARY KEY REFERENCES policy_versions (number),
  author_id  text NOT NULL,
  author     text NOT NULL,
  reason     text NOT NULL CHECK (char_length(reason) BETWEEN 1 AND 500),
  missing    jsonb NOT NULL,
  created_at timestamptz NOT NULL,
  closed_id  text,
  closed_by  text NOT NULL DEFAULT '',
  closed_at  timestamptz,
  note       text NOT NULL DEFAULT '' CHECK (char_length(note) <= 2000),
  CONSTRAINT policy_reviews_closed CHECK ((closed_at IS NULL) = (closed_id IS NULL)),
  CONSTRAINT policy_reviews_by_another CHECK (closed_id <> author_id)
);
CREATE INDEX policy_reviews_open ON policy_reviews (version) WHERE closed_at IS NULL;

-- +goose StatementBegin
CREATE FUNCTION refuse_closed_review() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.closed_at IS NOT NULL THEN
    RAISE EXCEPTION 'policy_reviews: the review of version % is closed', OLD.version USING ERRCODE = 'check_violation', CONSTRAINT = 'policy_reviews_final';
  END IF;
  RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER policy_reviews_final BEFORE UPDATE ON policy_reviews FOR EACH ROW EXECUTE FUNCTION refuse_closed_review();
CREATE TRIGGER policy_reviews_kept BEFORE DELETE OR TRUNCATE ON policy_reviews FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Simulations. One that runs is seen by its console every second; one that is not has died with it.
CREATE TABLE trials (
  id         text PRIMARY KEY CHECK (id ~ '^sim_[a-z2-7]{16}$'),
  draft_id   text NOT NULL DEFAULT '',
  digest     text NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
  against    bigint NOT NULL CHECK (against >= 0),
  from_at    timestamptz NOT NULL,
  to_at      timestamptz NOT NULL CHECK (to_at > from_at),
  state      text NOT NULL CHECK (state IN ('running', 'done', 'failed')),
  progress   double precision NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
  problem    text NOT NULL DEFAULT '',
  result     jsonb,
  author_id  text NOT NULL,
  author     text NOT NULL,
  created_at timestamptz NOT NULL,
  seen_at    timestamptz NOT NULL,
  CONSTRAINT trials_result CHECK ((state = 'done') = (result IS NOT NULL)),
  CONSTRAINT trials_problem CHECK ((state = 'failed') = (problem <> ''))
);
CREATE INDEX trials_draft ON trials (draft_id, created_at DESC, id DESC);
CREATE INDEX trials_age ON trials (created_at);

-- What operators set for all consoles, by name.
CREATE TABLE settings (
  name       text PRIMARY KEY CHECK (name ~ '^[a-z-]{1,40}$'),
  value      jsonb NOT NULL,
  updated_at timestamptz NOT NULL
);

-- +goose Down
DROP TABLE settings, trials, policy_reviews, draft_schedules, draft_approvals, draft_comments, draft_writers;
DROP FUNCTION refuse_closed_review;
ALTER TABLE policy_versions DROP COLUMN proof, DROP COLUMN tests;
ALTER TABLE drafts DROP COLUMN tests;
