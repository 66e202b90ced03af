-- Reads all tasks of a session.
-- Inputs: ?1 session.
-- Result: rows of tasks, by the start of the current run, or else its acceptance, then by id.
SELECT {tasks} FROM tasks WHERE session = ?1
ORDER BY coalesce(started_at, accepted_at, created_at), id
