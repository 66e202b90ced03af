-- Finds the runs that nobody has claimed in time, and locks them; those that somebody
-- is changing at this moment are left for later.
-- Inputs: ?1 now, ?2 when every announcement has ended: the clock has been set back since one was
-- made that ends later.
-- Result: rows of ready with how many more their session may run.
WITH due AS MATERIALIZED (
  SELECT {ready} FROM ready WHERE announced_until > 0 AND (announced_until <= ?1 OR announced_until > ?2) FOR UPDATE SKIP LOCKED
)
SELECT {due}, room FROM due CROSS JOIN LATERAL (
  SELECT max_running - running AS room FROM sessions WHERE id = due.session OFFSET 0
) AS sessions
