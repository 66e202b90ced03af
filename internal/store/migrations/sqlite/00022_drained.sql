-- +goose Up

-- When a worker was told to take no run any more; 0: it was not. A row without a replica says
-- so of the worker wherever its streams go.
ALTER TABLE workers ADD COLUMN drained_at INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE workers DROP COLUMN drained_at;
