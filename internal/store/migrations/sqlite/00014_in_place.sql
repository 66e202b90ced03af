-- +goose Up

-- Tasks change with each step of their run, and the replica is one of the columns
-- that do: an index need not change with it.
DROP INDEX tasks_released;
CREATE INDEX tasks_released ON tasks (release_message) WHERE release_message > 0;

-- +goose Down
DROP INDEX tasks_released;
CREATE INDEX tasks_released ON tasks (replica) WHERE release_message > 0;
