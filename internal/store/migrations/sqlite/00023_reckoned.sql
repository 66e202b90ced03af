-- +goose Up

-- What a call of a model is reckoned to take, in a session with a budget. max_running follows
-- from it: how many tasks there is enough left for.
ALTER TABLE sessions ADD COLUMN reckoned_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN reckoned_cost INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sessions DROP COLUMN reckoned_cost;
ALTER TABLE sessions DROP COLUMN reckoned_tokens;
