-- +goose Up

-- One row: what this database is.
CREATE TABLE meta (
  installation TEXT NOT NULL
) STRICT;

-- Parent conversations. Usage and counts are sums over the session's tasks.
CREATE TABLE sessions (
  id BLOB NOT NULL PRIMARY KEY,
  tenant TEXT NOT NULL,
  title TEXT NOT NULL,
  agent TEXT NOT NULL,
  root BLOB NOT NULL,
  metadata TEXT NOT NULL,       -- JSON
  limits TEXT NOT NULL,         -- JSON
  max_running INTEGER NOT NULL, -- of limits, for the dispatcher
  next_seq INTEGER NOT NULL,
  total INTEGER NOT NULL,
  pending INTEGER NOT NULL,
  running INTEGER NOT NULL,
  waiting INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_newest ON sessions (tenant, created_at, id);

-- Nodes of the trees, each with its current run and attempt.
CREATE TABLE tasks (
  session BLOB NOT NULL,
  id BLOB NOT NULL,
  parent BLOB,
  kind INTEGER NOT NULL,
  branch INTEGER NOT NULL,
  depth INTEGER NOT NULL,
  agent TEXT NOT NULL,
  agent_version TEXT NOT NULL,
  model TEXT NOT NULL,
  description TEXT NOT NULL,
  max_iterations INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  run INTEGER NOT NULL,
  state INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  detail TEXT NOT NULL,
  caller BLOB,
  call_message INTEGER NOT NULL,
  call_block INTEGER NOT NULL,
  background INTEGER NOT NULL,
  iterations INTEGER NOT NULL,
  run_input_tokens INTEGER NOT NULL,
  run_output_tokens INTEGER NOT NULL,
  run_cache_read_tokens INTEGER NOT NULL,
  run_cache_write_tokens INTEGER NOT NULL,
  run_tools INTEGER NOT NULL,
  answer INTEGER NOT NULL,
  accepted_at INTEGER,
  started_at INTEGER,
  ended_at INTEGER,
  wait_kind INTEGER NOT NULL,
  wait_total INTEGER NOT NULL,
  wait_met INTEGER NOT NULL,
  wait_failed INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  nonce INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  replica TEXT NOT NULL,
  worker TEXT NOT NULL,
  strikes INTEGER NOT NULL,
  next_ordinal INTEGER NOT NULL,
  head BLOB,
  open_message INTEGER NOT NULL,
  open_calls INTEGER NOT NULL,
  inbox INTEGER NOT NULL,
  children INTEGER NOT NULL,
  live_background INTEGER NOT NULL,
  watchers INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  tool_uses INTEGER NOT NULL,
  activity TEXT NOT NULL,
  PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX tasks_children ON tasks (session, parent, id);

-- How runs ended: never changed.
CREATE TABLE runs (
  session BLOB NOT NULL,
  task BLOB NOT NULL,
  run INTEGER NOT NULL,
  state INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  detail TEXT NOT NULL,
  answer INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  tool_uses INTEGER NOT NULL,
  iterations INTEGER NOT NULL,
  accepted_at INTEGER,
  started_at INTEGER,
  ended_at INTEGER,
  PRIMARY KEY (session, task, run)
) STRICT, WITHOUT ROWID;

-- Transcripts: never changed. A tool message has no body, it is made of the
-- calls of the message before it; nor has news, it is made of the run's outcome.
CREATE TABLE messages (
  session BLOB NOT NULL,
  task BLOB NOT NULL,
  ordinal INTEGER NOT NULL,
  id BLOB NOT NULL,
  parent BLOB,
  run INTEGER NOT NULL,
  role INTEGER NOT NULL,
  news_task BLOB,
  news_run INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  body BLOB,                    -- coppice.v1.Message: blocks, model, usage, stop_reason
  PRIMARY KEY (session, task, ordinal)
) STRICT, WITHOUT ROWID;

-- Tool calls. The result is text, or the outcome of child's run.
CREATE TABLE calls (
  session BLOB NOT NULL,
  task BLOB NOT NULL,
  message INTEGER NOT NULL,
  block INTEGER NOT NULL,
  tool TEXT NOT NULL,
  state INTEGER NOT NULL,
  child BLOB,
  child_run INTEGER NOT NULL,
  text TEXT NOT NULL,
  is_error INTEGER NOT NULL,
  by_outcome INTEGER NOT NULL,
  PRIMARY KEY (session, task, message, block)
) STRICT, WITHOUT ROWID;

-- What watchers see: never changed.
CREATE TABLE events (
  session BLOB NOT NULL,
  seq INTEGER NOT NULL,
  data BLOB NOT NULL,           -- coppice.v1.Event
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

-- Messages that wait for their task's next boundary.
CREATE TABLE inbox (
  session BLOB NOT NULL,
  id BLOB NOT NULL,
  task BLOB NOT NULL,
  news_task BLOB,
  news_run INTEGER NOT NULL,
  queued_at INTEGER NOT NULL,
  body BLOB,
  PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX inbox_task ON inbox (session, task);

-- Calls that wait for the output of a run they did not start.
CREATE TABLE waits (
  session BLOB NOT NULL,
  target BLOB NOT NULL,
  target_run INTEGER NOT NULL,
  task BLOB NOT NULL,
  message INTEGER NOT NULL,
  block INTEGER NOT NULL,
  PRIMARY KEY (session, target, target_run, task, message, block)
) STRICT, WITHOUT ROWID;

-- When waiting calls are closed with what there is.
CREATE TABLE timers (
  session BLOB NOT NULL,
  task BLOB NOT NULL,
  message INTEGER NOT NULL,
  block INTEGER NOT NULL,
  due INTEGER NOT NULL,
  PRIMARY KEY (session, task, message, block)
) STRICT, WITHOUT ROWID;

CREATE INDEX timers_due ON timers (due);

-- Runs that wait for a worker. fair_tag orders them, so that sessions take turns.
-- announced_until is 0 until a hint was put on the dispatch stream, and -1 while
-- the run is held back, since its session may not run more tasks at once.
CREATE TABLE ready (
  session BLOB NOT NULL,
  task BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  fair_tag INTEGER NOT NULL,
  at INTEGER NOT NULL,
  announced_until INTEGER NOT NULL,
  PRIMARY KEY (session, task)
) STRICT, WITHOUT ROWID;

CREATE INDEX ready_due ON ready (priority, fair_tag) WHERE announced_until = 0;
CREATE INDEX ready_announced ON ready (announced_until) WHERE announced_until > 0;
CREATE INDEX ready_held ON ready (session, priority, fair_tag) WHERE announced_until < 0;

-- Runs that are with a worker, and whose replica holds the stream.
CREATE TABLE attempts (
  session BLOB NOT NULL,
  task BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  replica TEXT NOT NULL,
  worker TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (session, task)
) STRICT, WITHOUT ROWID;

-- Answers to requests with an idempotency key.
CREATE TABLE requests (
  session BLOB NOT NULL,
  key TEXT NOT NULL,
  hash BLOB NOT NULL,
  answer TEXT NOT NULL,         -- JSON
  PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;

-- When each replica was last seen.
CREATE TABLE replicas (
  id TEXT NOT NULL PRIMARY KEY,
  beat INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Definitions that tasks have pinned.
CREATE TABLE agents (
  version TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  body BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE meta;
DROP TABLE sessions;
DROP TABLE tasks;
DROP TABLE runs;
DROP TABLE messages;
DROP TABLE calls;
DROP TABLE events;
DROP TABLE inbox;
DROP TABLE waits;
DROP TABLE timers;
DROP TABLE ready;
DROP TABLE attempts;
DROP TABLE requests;
DROP TABLE replicas;
DROP TABLE agents;
