-- +goose Up

-- What the tokens have cost whose price was known when they were recorded, in
-- millionths of a US dollar, and how many they are. Nobody knows of those from before.
ALTER TABLE sessions ADD COLUMN cost_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN priced_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN cost_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN priced_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN cost_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN priced_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN run_cost_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN run_priced_tokens INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE tasks DROP COLUMN run_priced_tokens;
ALTER TABLE tasks DROP COLUMN run_cost_micros;
ALTER TABLE runs DROP COLUMN priced_tokens;
ALTER TABLE runs DROP COLUMN cost_micros;
ALTER TABLE tasks DROP COLUMN priced_tokens;
ALTER TABLE tasks DROP COLUMN cost_micros;
ALTER TABLE sessions DROP COLUMN priced_tokens;
ALTER TABLE sessions DROP COLUMN cost_micros;
