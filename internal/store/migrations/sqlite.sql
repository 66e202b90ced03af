-- What the migrations make of an empty database. Written by:
-- go test ./internal/store -run TestNewSchema -update

CREATE TABLE meta (
  installation TEXT NOT NULL
, fair_now INTEGER NOT NULL DEFAULT 0) STRICT;
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
, fair_tag INTEGER NOT NULL DEFAULT 0, asking INTEGER NOT NULL DEFAULT 0, grants TEXT NOT NULL DEFAULT 'null', current_task BLOB, closed_at INTEGER, deleted_at INTEGER, shells INTEGER NOT NULL DEFAULT 0, cost_micros INTEGER NOT NULL DEFAULT 0, priced_tokens INTEGER NOT NULL DEFAULT 0, workspace TEXT NOT NULL DEFAULT '', version INTEGER NOT NULL DEFAULT 0, budget_tokens INTEGER NOT NULL DEFAULT 0, budget_cost INTEGER NOT NULL DEFAULT 0, reckoned_tokens INTEGER NOT NULL DEFAULT 0, reckoned_cost INTEGER NOT NULL DEFAULT 0, model_calls INTEGER NOT NULL DEFAULT 0, budget_calls INTEGER NOT NULL DEFAULT 0, on_approval TEXT NOT NULL DEFAULT '', denied_calls INTEGER NOT NULL DEFAULT 0, unlisted INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
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
  activity TEXT NOT NULL, timeout INTEGER NOT NULL DEFAULT 0, fail_on_interrupt INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 0, deadline INTEGER, ran INTEGER NOT NULL DEFAULT 0, reported_at INTEGER, attach INTEGER NOT NULL DEFAULT 0, claimed_at INTEGER, last_answer INTEGER NOT NULL DEFAULT 0, model_provider TEXT NOT NULL DEFAULT '', model_name TEXT NOT NULL DEFAULT '', permissions TEXT NOT NULL DEFAULT '', origin TEXT NOT NULL DEFAULT '', authority TEXT NOT NULL DEFAULT '', source TEXT NOT NULL DEFAULT '', asking INTEGER NOT NULL DEFAULT 0, base_kind INTEGER NOT NULL DEFAULT 0, base_task BLOB, base_message INTEGER NOT NULL DEFAULT 0, base_block INTEGER NOT NULL DEFAULT 0, compacted INTEGER NOT NULL DEFAULT 0, all_iterations INTEGER NOT NULL DEFAULT 0, recent TEXT NOT NULL DEFAULT '', told TEXT NOT NULL DEFAULT '', start_hooked INTEGER NOT NULL DEFAULT 0, stop_hooked INTEGER NOT NULL DEFAULT 0, on_complete TEXT NOT NULL DEFAULT '', output TEXT NOT NULL DEFAULT '', release_message INTEGER NOT NULL DEFAULT 0, cost_micros INTEGER NOT NULL DEFAULT 0, priced_tokens INTEGER NOT NULL DEFAULT 0, run_cost_micros INTEGER NOT NULL DEFAULT 0, run_priced_tokens INTEGER NOT NULL DEFAULT 0, worktrees TEXT NOT NULL DEFAULT '', trace BLOB, trace_parent INTEGER NOT NULL DEFAULT 0, trace_flags INTEGER NOT NULL DEFAULT 0, moved_at INTEGER,
  PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;
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
  ended_at INTEGER, cost_micros INTEGER NOT NULL DEFAULT 0, priced_tokens INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (session, task, run)
) STRICT, WITHOUT ROWID;
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
  by_outcome INTEGER NOT NULL, approval BLOB, join_policy INTEGER NOT NULL DEFAULT 0, reads INTEGER NOT NULL DEFAULT 0, upto INTEGER NOT NULL DEFAULT 0, packed BLOB,
  PRIMARY KEY (session, task, message, block)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
  session BLOB NOT NULL,
  seq INTEGER NOT NULL,
  data BLOB NOT NULL,           -- coppice.v1.Event
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE inbox (
  session BLOB NOT NULL,
  id BLOB NOT NULL,
  task BLOB NOT NULL,
  news_task BLOB,
  news_run INTEGER NOT NULL,
  queued_at INTEGER NOT NULL,
  body BLOB, source TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_task ON inbox (session, task);
CREATE TABLE waits (
  session BLOB NOT NULL,
  target BLOB NOT NULL,
  target_run INTEGER NOT NULL,
  task BLOB NOT NULL,
  message INTEGER NOT NULL,
  block INTEGER NOT NULL,
  PRIMARY KEY (session, target, target_run, task, message, block)
) STRICT, WITHOUT ROWID;
CREATE TABLE timers (
  session BLOB NOT NULL,
  task BLOB NOT NULL,
  message INTEGER NOT NULL,
  block INTEGER NOT NULL,
  due INTEGER NOT NULL,
  PRIMARY KEY (session, task, message, block)
) STRICT, WITHOUT ROWID;
CREATE INDEX timers_due ON timers (due);
CREATE TABLE ready (
  session BLOB NOT NULL,
  task BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  fair_tag INTEGER NOT NULL,
  at INTEGER NOT NULL,
  announced_until INTEGER NOT NULL, tenant TEXT NOT NULL DEFAULT '', replica TEXT NOT NULL DEFAULT '', precedence INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (session, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX ready_announced ON ready (announced_until) WHERE announced_until > 0;
CREATE INDEX ready_held ON ready (session, priority, fair_tag) WHERE announced_until < 0;
CREATE TABLE attempts (
  session BLOB NOT NULL,
  task BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  replica TEXT NOT NULL,
  worker TEXT NOT NULL,
  at INTEGER NOT NULL, attach INTEGER NOT NULL DEFAULT 0, nonce INTEGER,
  PRIMARY KEY (session, task)
) STRICT, WITHOUT ROWID;
CREATE TABLE requests (
  session BLOB NOT NULL,
  key TEXT NOT NULL,
  hash BLOB NOT NULL,
  answer TEXT NOT NULL,         -- JSON
  PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE replicas (
  id TEXT NOT NULL PRIMARY KEY,
  beat INTEGER NOT NULL
, slots INTEGER NOT NULL DEFAULT 0, row_form INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
CREATE TABLE agents (
  version TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  body BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ready_queue ON ready (tenant, priority, fair_tag) WHERE announced_until = 0;
CREATE TABLE tenant_agents (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE tenant_agent_versions (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  put_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, name, version)
) STRICT, WITHOUT ROWID;
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
  decided_at INTEGER, url TEXT NOT NULL DEFAULT '', tries INTEGER NOT NULL DEFAULT 0, call_due INTEGER, argument_cut INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX approvals_id ON approvals (id);
CREATE INDEX approvals_open ON approvals (id) WHERE state = 1;
CREATE INDEX sessions_deleted ON sessions (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE TABLE callbacks (
  session BLOB NOT NULL,
  task    BLOB NOT NULL,
  run     INTEGER NOT NULL,
  url     TEXT NOT NULL,
  tries   INTEGER NOT NULL,
  due     INTEGER NOT NULL,
  PRIMARY KEY (session, task, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_released ON tasks (release_message) WHERE release_message > 0;
CREATE INDEX tasks_children ON tasks (session, parent, id) WHERE parent IS NOT NULL;
CREATE TABLE workers (
  replica TEXT NOT NULL,
  id TEXT NOT NULL,
  pool TEXT NOT NULL,
  slots INTEGER NOT NULL,
  version TEXT NOT NULL,
  started_at INTEGER NOT NULL,   -- of the process
  draining INTEGER NOT NULL, drained_at INTEGER NOT NULL DEFAULT 0,     -- it is to take no run any more
  PRIMARY KEY (replica, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_newest ON sessions (tenant, created_at);
CREATE INDEX callbacks_host ON callbacks (
  lower(substr(url, 1, instr(replace(replace(substr(url, 9, 300), '?', '/'), '#', '/') || '/', '/') + 7)), due
);
CREATE INDEX approvals_host ON approvals (
  lower(substr(url, 1, instr(replace(replace(substr(url, 9, 300), '?', '/'), '#', '/') || '/', '/') + 7)), call_due
) WHERE state = 1 AND call_due IS NOT NULL;
CREATE INDEX ready_first ON ready (session, priority, precedence DESC, fair_tag) WHERE announced_until <= 0 AND precedence > 0;
CREATE INDEX sessions_unlisted ON sessions (id) WHERE unlisted;
