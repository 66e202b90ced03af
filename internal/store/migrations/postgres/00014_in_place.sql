-- +goose Up

-- A row that is updated stays on its page, without new entries in indexes, if there is
-- room on the page and no indexed column changes. Tasks change with each step of their
-- run, and the replica is one of the columns that do.
DROP INDEX tasks_released;
CREATE INDEX tasks_released ON tasks (release_message) WHERE release_message > 0;
ALTER TABLE tasks SET (fillfactor = 60);
ALTER TABLE sessions SET (fillfactor = 60);
ALTER TABLE calls SET (fillfactor = 80);

-- +goose Down
ALTER TABLE calls RESET (fillfactor);
ALTER TABLE sessions RESET (fillfactor);
ALTER TABLE tasks RESET (fillfactor);
DROP INDEX tasks_released;
CREATE INDEX tasks_released ON tasks (replica) WHERE release_message > 0;
