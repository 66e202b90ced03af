-- +goose Up

-- Where the current run of a task hangs in a trace, and when it came to its state.
ALTER TABLE tasks ADD COLUMN trace BLOB;
ALTER TABLE tasks ADD COLUMN trace_parent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN trace_flags INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN moved_at INTEGER;

-- +goose Down
ALTER TABLE tasks DROP COLUMN moved_at;
ALTER TABLE tasks DROP COLUMN trace_flags;
ALTER TABLE tasks DROP COLUMN trace_parent;
ALTER TABLE tasks DROP COLUMN trace;
