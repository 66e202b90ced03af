-- +goose Up

-- How many commands of a session run: they take no place under its cap.
ALTER TABLE sessions ADD COLUMN shells INTEGER NOT NULL DEFAULT 0;

-- What a command under way has printed last, and the message of which a run is to let
-- its commands go on in the background.
ALTER TABLE tasks ADD COLUMN output TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN release_message INTEGER NOT NULL DEFAULT 0;
CREATE INDEX tasks_released ON tasks (replica) WHERE release_message > 0;

-- +goose Down
DROP INDEX tasks_released;
ALTER TABLE tasks DROP COLUMN release_message;
ALTER TABLE tasks DROP COLUMN output;
ALTER TABLE sessions DROP COLUMN shells;
