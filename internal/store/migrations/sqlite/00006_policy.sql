-- +goose Up

-- What the agent's definition says of what the task may do, who outside it was
-- started for, what its run may do and who outside that is for, and how many of its
-- calls wait for an approval.
ALTER TABLE tasks ADD COLUMN permissions TEXT NOT NULL DEFAULT ''; -- JSON
ALTER TABLE tasks ADD COLUMN origin TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN authority TEXT NOT NULL DEFAULT '';   -- JSON
ALTER TABLE tasks ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN asking INTEGER NOT NULL DEFAULT 0;

-- How many approvals are open, and what is allowed without asking again.
ALTER TABLE sessions ADD COLUMN asking INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN grants TEXT NOT NULL DEFAULT 'null'; -- JSON

-- The question whether the call may run.
ALTER TABLE calls ADD COLUMN approval BLOB;

-- Who outside an entry comes from.
ALTER TABLE inbox ADD COLUMN source TEXT NOT NULL DEFAULT '';

-- Questions whether a call may run, and their answers.
CREATE TABLE approvals (
  session BLOB NOT NULL,
  id BLOB NOT NULL,
  task BLOB NOT NULL,
  run INTEGER NOT NULL,
  message INTEGER NOT NULL,
  block INTEGER NOT NULL,
  tool TEXT NOT NULL,
  argument TEXT NOT NULL,
  rules TEXT NOT NULL,     -- JSON
  asked_at INTEGER NOT NULL,
  due INTEGER,
  state INTEGER NOT NULL,
  for_session INTEGER NOT NULL,
  note TEXT NOT NULL,      -- of who decided
  decided_at INTEGER,
  PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX approvals_id ON approvals (id);
CREATE INDEX approvals_open ON approvals (id) WHERE state = 1;

-- +goose Down
DROP TABLE approvals;
ALTER TABLE inbox DROP COLUMN source;
ALTER TABLE calls DROP COLUMN approval;
ALTER TABLE sessions DROP COLUMN grants;
ALTER TABLE sessions DROP COLUMN asking;
ALTER TABLE tasks DROP COLUMN asking;
ALTER TABLE tasks DROP COLUMN source;
ALTER TABLE tasks DROP COLUMN authority;
ALTER TABLE tasks DROP COLUMN origin;
ALTER TABLE tasks DROP COLUMN permissions;
