-- +goose Up

-- Times are microseconds since 1970. What people, models and tools say is BYTEA, since
-- TEXT does not take every string: convert_from(detail, 'UTF8') shows it.

-- One row: what this database is.
CREATE TABLE meta (
  installation TEXT NOT NULL
);

CREATE UNIQUE INDEX meta_one ON meta ((true));

-- Parent conversations. Usage and counts are sums over the session's tasks.
CREATE TABLE sessions (
  id BYTEA NOT NULL PRIMARY KEY,
  tenant TEXT NOT NULL,
  title BYTEA NOT NULL,
  agent TEXT NOT NULL,
  root BYTEA NOT NULL,
  metadata TEXT NOT NULL,       -- JSON
  limits TEXT NOT NULL,         -- JSON
  max_running BIGINT NOT NULL, -- of limits, for the dispatcher
  next_seq BIGINT NOT NULL,
  total BIGINT NOT NULL,
  pending BIGINT NOT NULL,
  running BIGINT NOT NULL,
  waiting BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  cache_read_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);

CREATE INDEX sessions_newest ON sessions (tenant, created_at, id);

-- Nodes of the trees, each with its current run and attempt.
CREATE TABLE tasks (
  session BYTEA NOT NULL,
  id BYTEA NOT NULL,
  parent BYTEA,
  kind BIGINT NOT NULL,
  branch BIGINT NOT NULL,
  depth BIGINT NOT NULL,
  agent TEXT NOT NULL,
  agent_version TEXT NOT NULL,
  model TEXT NOT NULL,
  description BYTEA NOT NULL,
  max_iterations BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  run BIGINT NOT NULL,
  state BIGINT NOT NULL,
  reason BIGINT NOT NULL,
  detail BYTEA NOT NULL,
  caller BYTEA,
  call_message BIGINT NOT NULL,
  call_block BIGINT NOT NULL,
  background BOOLEAN NOT NULL,
  iterations BIGINT NOT NULL,
  run_input_tokens BIGINT NOT NULL,
  run_output_tokens BIGINT NOT NULL,
  run_cache_read_tokens BIGINT NOT NULL,
  run_cache_write_tokens BIGINT NOT NULL,
  run_tools BIGINT NOT NULL,
  answer BIGINT NOT NULL,
  accepted_at BIGINT,
  started_at BIGINT,
  ended_at BIGINT,
  wait_kind BIGINT NOT NULL,
  wait_total BIGINT NOT NULL,
  wait_met BIGINT NOT NULL,
  wait_failed BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  nonce BIGINT NOT NULL,
  last_seq BIGINT NOT NULL,
  replica TEXT NOT NULL,
  worker TEXT NOT NULL,
  strikes BIGINT NOT NULL,
  next_ordinal BIGINT NOT NULL,
  head BYTEA,
  open_message BIGINT NOT NULL,
  open_calls BIGINT NOT NULL,
  inbox BIGINT NOT NULL,
  children BIGINT NOT NULL,
  live_background BIGINT NOT NULL,
  watchers BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  cache_read_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  tool_uses BIGINT NOT NULL,
  activity BYTEA NOT NULL,
  PRIMARY KEY (session, id)
);

CREATE INDEX tasks_children ON tasks (session, parent, id);

-- How runs ended: never changed.
CREATE TABLE runs (
  session BYTEA NOT NULL,
  task BYTEA NOT NULL,
  run BIGINT NOT NULL,
  state BIGINT NOT NULL,
  reason BIGINT NOT NULL,
  detail BYTEA NOT NULL,
  answer BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  cache_read_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  tool_uses BIGINT NOT NULL,
  iterations BIGINT NOT NULL,
  accepted_at BIGINT,
  started_at BIGINT,
  ended_at BIGINT,
  PRIMARY KEY (session, task, run)
);

-- Transcripts: never changed. A tool message has no body, it is made of the
-- calls of the message before it; nor has news, it is made of the run's outcome.
CREATE TABLE messages (
  session BYTEA NOT NULL,
  task BYTEA NOT NULL,
  ordinal BIGINT NOT NULL,
  id BYTEA NOT NULL,
  parent BYTEA,
  run BIGINT NOT NULL,
  role BIGINT NOT NULL,
  news_task BYTEA,
  news_run BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  body BYTEA,                    -- coppice.v1.Message: blocks, model, usage, stop_reason
  PRIMARY KEY (session, task, ordinal)
);

-- Tool calls. The result is text, or the outcome of child's run.
CREATE TABLE calls (
  session BYTEA NOT NULL,
  task BYTEA NOT NULL,
  message BIGINT NOT NULL,
  block BIGINT NOT NULL,
  tool BYTEA NOT NULL,
  state BIGINT NOT NULL,
  child BYTEA,
  child_run BIGINT NOT NULL,
  text BYTEA NOT NULL,
  is_error BOOLEAN NOT NULL,
  by_outcome BOOLEAN NOT NULL,
  PRIMARY KEY (session, task, message, block)
);

-- What watchers see: never changed.
CREATE TABLE events (
  session BYTEA NOT NULL,
  seq BIGINT NOT NULL,
  data BYTEA NOT NULL,           -- coppice.v1.Event
  PRIMARY KEY (session, seq)
);

-- Messages that wait for their task's next boundary.
CREATE TABLE inbox (
  session BYTEA NOT NULL,
  id BYTEA NOT NULL,
  task BYTEA NOT NULL,
  news_task BYTEA,
  news_run BIGINT NOT NULL,
  queued_at BIGINT NOT NULL,
  body BYTEA,
  PRIMARY KEY (session, id)
);

CREATE INDEX inbox_task ON inbox (session, task);

-- Calls that wait for the output of a run they did not start.
CREATE TABLE waits (
  session BYTEA NOT NULL,
  target BYTEA NOT NULL,
  target_run BIGINT NOT NULL,
  task BYTEA NOT NULL,
  message BIGINT NOT NULL,
  block BIGINT NOT NULL,
  PRIMARY KEY (session, target, target_run, task, message, block)
);

-- When waiting calls are closed with what there is.
CREATE TABLE timers (
  session BYTEA NOT NULL,
  task BYTEA NOT NULL,
  message BIGINT NOT NULL,
  block BIGINT NOT NULL,
  due BIGINT NOT NULL,
  PRIMARY KEY (session, task, message, block)
);

CREATE INDEX timers_due ON timers (due);

-- Runs that wait for a worker. fair_tag orders them, so that sessions take turns.
-- announced_until is 0 until a hint was put on the dispatch stream, and -1 while
-- the run is held back, since its session may not run more tasks at once.
CREATE TABLE ready (
  session BYTEA NOT NULL,
  task BYTEA NOT NULL,
  epoch BIGINT NOT NULL,
  priority BIGINT NOT NULL,
  fair_tag BIGINT NOT NULL,
  at BIGINT NOT NULL,
  announced_until BIGINT NOT NULL,
  PRIMARY KEY (session, task)
);

CREATE INDEX ready_due ON ready (priority, fair_tag) WHERE announced_until = 0;
CREATE INDEX ready_announced ON ready (announced_until) WHERE announced_until > 0;
CREATE INDEX ready_held ON ready (session, priority, fair_tag) WHERE announced_until < 0;

-- Runs that are with a worker, and whose replica holds the stream.
CREATE TABLE attempts (
  session BYTEA NOT NULL,
  task BYTEA NOT NULL,
  epoch BIGINT NOT NULL,
  replica TEXT NOT NULL,
  worker TEXT NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (session, task)
);

-- Answers to requests with an idempotency key.
CREATE TABLE requests (
  session BYTEA NOT NULL,
  key BYTEA NOT NULL,
  hash BYTEA NOT NULL,
  answer TEXT NOT NULL,         -- JSON
  PRIMARY KEY (session, key)
);

-- When each replica was last seen.
CREATE TABLE replicas (
  id TEXT NOT NULL PRIMARY KEY,
  beat BIGINT NOT NULL
);

-- Definitions that tasks have pinned.
CREATE TABLE agents (
  version TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  body BYTEA NOT NULL
);

-- The transactions of the last hour, for whoever lost the connection while one was
-- being committed.
CREATE TABLE batches (
  id BYTEA NOT NULL PRIMARY KEY,
  at BIGINT NOT NULL
);

CREATE INDEX batches_at ON batches (at);

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
DROP TABLE batches;
