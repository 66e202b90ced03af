-- +goose Up

-- What all tasks of a session may use together: tokens of all kinds, and micros of what has
-- a price. 0: no bound.
ALTER TABLE sessions ADD COLUMN budget_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN budget_cost BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sessions DROP COLUMN budget_cost;
ALTER TABLE sessions DROP COLUMN budget_tokens;
