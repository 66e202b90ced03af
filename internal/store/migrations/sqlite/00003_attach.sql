-- +goose Up

-- Bounds of a run's time, and what a lost worker means for it.
ALTER TABLE tasks ADD COLUMN timeout INTEGER NOT NULL DEFAULT 0; -- microseconds
ALTER TABLE tasks ADD COLUMN fail_on_interrupt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN deadline INTEGER;
ALTER TABLE tasks ADD COLUMN ran INTEGER NOT NULL DEFAULT 0; -- microseconds
ALTER TABLE tasks ADD COLUMN reported_at INTEGER;

-- An attempt goes on over another stream of its worker.
ALTER TABLE tasks ADD COLUMN attach INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN claimed_at INTEGER;
ALTER TABLE tasks ADD COLUMN last_answer INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN attach INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE attempts DROP COLUMN attach;
ALTER TABLE tasks DROP COLUMN last_answer;
ALTER TABLE tasks DROP COLUMN claimed_at;
ALTER TABLE tasks DROP COLUMN attach;
ALTER TABLE tasks DROP COLUMN reported_at;
ALTER TABLE tasks DROP COLUMN ran;
ALTER TABLE tasks DROP COLUMN deadline;
ALTER TABLE tasks DROP COLUMN priority;
ALTER TABLE tasks DROP COLUMN fail_on_interrupt;
ALTER TABLE tasks DROP COLUMN timeout;
