-- +goose Up

-- What a conversation goes on from: a message of another task.
ALTER TABLE tasks ADD COLUMN base_kind INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN base_task BLOB;
ALTER TABLE tasks ADD COLUMN base_message INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN base_block INTEGER NOT NULL DEFAULT 0;

-- The ordinal of the last message that sums up what came before.
ALTER TABLE tasks ADD COLUMN compacted INTEGER NOT NULL DEFAULT 0;

-- The branch that messages go to which name no task; NULL is the root.
ALTER TABLE sessions ADD COLUMN current_task BLOB;

-- +goose Down
ALTER TABLE sessions DROP COLUMN current_task;
ALTER TABLE tasks DROP COLUMN compacted;
ALTER TABLE tasks DROP COLUMN base_block;
ALTER TABLE tasks DROP COLUMN base_message;
ALTER TABLE tasks DROP COLUMN base_task;
ALTER TABLE tasks DROP COLUMN base_kind;
