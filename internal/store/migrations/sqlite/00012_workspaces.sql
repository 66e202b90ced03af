-- +goose Up

-- The directory that a session shares with others, and whose worktrees a task works in.
ALTER TABLE sessions ADD COLUMN workspace TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN worktrees TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE tasks DROP COLUMN worktrees;
ALTER TABLE sessions DROP COLUMN workspace;
