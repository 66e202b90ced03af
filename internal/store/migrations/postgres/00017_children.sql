-- +goose Up

-- A root is nobody's child. While most sessions are a root alone, or none was counted yet,
-- a database takes this index for as good as the key when it looks for a task by session
-- and id, and reads what it has of the session: what is not in it for all tasks can't be
-- taken for that.
DROP INDEX tasks_children;
CREATE INDEX tasks_children ON tasks (session, parent, id) WHERE parent IS NOT NULL;

-- +goose Down
DROP INDEX tasks_children;
CREATE INDEX tasks_children ON tasks (session, parent, id);
