-- Reads a page of a session's tasks.
-- Inputs: ?1 session, ?2 the last task before the page, ?3 how many.
-- Result: rows of tasks, oldest first.
SELECT {tasks} FROM tasks {claims} WHERE tasks.session = ?1 AND id > ?2 ORDER BY id LIMIT ?3
