-- +goose Up

-- Bounds of a run's time, and what a lost worker means for it.
ALTER TABLE tasks ADD COLUMN timeout BIGINT NOT NULL DEFAULT 0; -- microseconds
ALTER TABLE tasks ADD COLUMN fail_on_interrupt BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE tasks ADD COLUMN priority BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN deadline BIGINT;
ALTER TABLE tasks ADD COLUMN ran BIGINT NOT NULL DEFAULT 0; -- microseconds
ALTER TABLE tasks ADD COLUMN reported_at BIGINT;

-- An attempt goes on over another stream of its worker.
ALTER TABLE tasks ADD COLUMN attach BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN claimed_at BIGINT;
ALTER TABLE tasks ADD COLUMN last_answer BIGINT NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN attach BIGINT NOT NULL DEFAULT 0;

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
