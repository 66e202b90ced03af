-- +goose Up

-- The calls of models that all tasks of a session have made, since they are counted, and may
-- make together; a bound of 0 is none.
ALTER TABLE sessions ADD COLUMN model_calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN budget_calls INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sessions DROP COLUMN budget_calls;
ALTER TABLE sessions DROP COLUMN model_calls;
