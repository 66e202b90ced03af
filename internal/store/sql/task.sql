-- Reads a task.
-- Inputs: ?1 session, ?2 task.
-- Result: rows of tasks.
SELECT {tasks} FROM tasks {claims} WHERE tasks.session = ?1 AND id = ?2
