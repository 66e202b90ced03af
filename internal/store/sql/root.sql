-- Reads the root of a session.
-- Inputs: ?1 session.
-- Result: rows of tasks.
SELECT {tasks} FROM tasks {claims} WHERE tasks.session = ?1 AND id = (SELECT root FROM sessions WHERE id = ?1)
