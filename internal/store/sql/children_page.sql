-- Reads a page of a task's children.
-- Inputs: ?1 session, ?2 the last task before the page, ?3 how many, ?4 parent.
-- Result: rows of tasks, oldest first.
SELECT {tasks} FROM tasks {by tasks_children} {claims} WHERE tasks.session = ?1 AND id > ?2 AND parent = ?4 ORDER BY id LIMIT ?3
