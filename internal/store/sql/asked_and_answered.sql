-- Reads the prompt and the answer of a task's current run.
-- Inputs: ?1 session, ?2 task; NULL: the root, ?3 the role of users.
-- Result: rows of messages, at most one of each.
WITH current AS (
  SELECT id AS ran_by, run AS current_run, answer FROM tasks WHERE session = ?1
  AND id = coalesce(?2, (SELECT root FROM sessions WHERE id = ?1))
)
SELECT {messages} FROM messages
WHERE session = ?1 AND task = (SELECT ran_by FROM current) AND ordinal = (SELECT answer FROM current)
UNION ALL
SELECT * FROM (
  SELECT {messages} FROM messages
  WHERE session = ?1 AND task = (SELECT ran_by FROM current) AND run = (SELECT current_run FROM current)
  AND role = ?3 AND news_task IS NULL ORDER BY ordinal LIMIT 1
) AS asked
