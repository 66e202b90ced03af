-- Reads all tasks of a session.
-- Inputs: ?1 session.
-- Result: rows of tasks, by the start of their first run (the time it was accepted), then by id.
SELECT {tasks} FROM tasks {claims} WHERE tasks.session = ?1
ORDER BY created_at, id
