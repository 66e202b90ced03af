-- +goose Up

-- The end of sessions. A deleted one does not exist any more; its rows go step by step.
ALTER TABLE sessions ADD COLUMN closed_at INTEGER;
ALTER TABLE sessions ADD COLUMN deleted_at INTEGER;
CREATE INDEX sessions_deleted ON sessions (deleted_at) WHERE deleted_at IS NOT NULL;

-- How far a task has come, for those who read its output.
ALTER TABLE tasks ADD COLUMN all_iterations INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN recent TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN told TEXT NOT NULL DEFAULT '';
UPDATE tasks SET all_iterations = iterations + coalesce((SELECT sum(r.iterations) FROM runs r
  WHERE r.session = tasks.session AND r.task = tasks.id AND r.run < tasks.run), 0);

-- What a call waits for, and up to where it shows what a run has said.
ALTER TABLE calls ADD COLUMN join_policy INTEGER NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN reads INTEGER NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN upto INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE calls DROP COLUMN upto;
ALTER TABLE calls DROP COLUMN reads;
ALTER TABLE calls DROP COLUMN join_policy;
ALTER TABLE tasks DROP COLUMN told;
ALTER TABLE tasks DROP COLUMN recent;
ALTER TABLE tasks DROP COLUMN all_iterations;
DROP INDEX sessions_deleted;
ALTER TABLE sessions DROP COLUMN deleted_at;
ALTER TABLE sessions DROP COLUMN closed_at;
