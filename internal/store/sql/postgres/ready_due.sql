-- Finds the next runs that nobody has announced, and locks them; those that somebody
-- is changing at this moment are left for later.
-- Inputs: ?1 how many.
-- Result: rows of ready with how many more their session may run, the next first.
WITH due AS MATERIALIZED (
  SELECT {ready} FROM ready WHERE announced_until = 0
  ORDER BY priority, fair_tag LIMIT ?1 FOR UPDATE SKIP LOCKED
)
SELECT {due}, max_running - running
FROM due JOIN sessions ON sessions.id = due.session
ORDER BY due.priority, due.fair_tag
