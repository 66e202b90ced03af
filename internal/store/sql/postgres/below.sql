-- Reads all tasks below a task, ended or not; without a task, all tasks of the session. Each is
-- looked up by its key, whatever the planner's estimate of the table's size.
-- Inputs: ?1 session, ?2 task or NULL.
-- Result: rows of tasks, in no order.
WITH RECURSIVE below(id) AS (
  SELECT id FROM tasks WHERE session = ?1 AND parent = ?2
  UNION ALL
  SELECT id FROM tasks WHERE ?2 IS NULL AND session = ?1 AND parent IS NULL
  UNION ALL
  SELECT child.id FROM below CROSS JOIN LATERAL (
    SELECT id FROM tasks WHERE session = ?1 AND parent = below.id OFFSET 0
  ) AS child
)
SELECT found.* FROM below CROSS JOIN LATERAL (
  SELECT {tasks} FROM tasks {claims} WHERE tasks.session = ?1 AND id = below.id OFFSET 0
) AS found
