-- Reads all tasks below a task, ended or not; without a task, all tasks of the session. The
-- children of each task are looked up by their parent. The other join order would compare every
-- task of the session with every task found so far.
-- Inputs: ?1 session, ?2 task or NULL.
-- Result: rows of tasks, in no order.
WITH RECURSIVE below(id) AS (
  SELECT id FROM tasks WHERE session = ?1 AND parent = ?2
  UNION ALL
  SELECT id FROM tasks WHERE ?2 IS NULL AND session = ?1 AND parent IS NULL
  UNION ALL
  SELECT t.id FROM below b CROSS JOIN tasks t {by tasks_children} ON t.session = ?1 AND t.parent = b.id
)
SELECT {tasks} FROM tasks {claims} WHERE tasks.session = ?1 AND id IN (SELECT id FROM below)
