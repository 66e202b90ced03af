-- +goose Up

-- How many calls of the session's tasks were denied.
ALTER TABLE sessions ADD COLUMN denied_calls INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sessions DROP COLUMN denied_calls;
