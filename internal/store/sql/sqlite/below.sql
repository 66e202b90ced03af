-- Reads every task below a task, ended or not; of no task, every task of the session. Each
-- task's children are looked up by it: the other way round all of the session would be held
-- against all that was found.
-- Inputs: ?1 session, ?2 task or NULL.
-- Result: rows of tasks, in no order.
WITH RECURSIVE below(id) AS (
  SELECT id FROM tasks WHERE session = ?1 AND parent = ?2
  UNION ALL
  SELECT id FROM tasks WHERE ?2 IS NULL AND session = ?1 AND parent IS NULL
  UNION ALL
  SELECT t.id FROM below b CROSS JOIN tasks t {by tasks_children} ON t.session = ?1 AND t.parent = b.id
)
SELECT {tasks} FROM tasks WHERE session = ?1 AND id IN (SELECT id FROM below)
