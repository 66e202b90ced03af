-- Finds and locks the runs whose announcement has expired. Skips rows that are locked.
-- Inputs: ?1 now, ?2 the latest time at which an announcement can expire. One that expires later
-- was made before the clock was set back.
-- Result: rows of ready with how many more runs their session may have.
WITH due AS MATERIALIZED (
  SELECT {ready} FROM ready WHERE announced_until > 0 AND (announced_until <= ?1 OR announced_until > ?2) FOR UPDATE SKIP LOCKED
)
SELECT {due}, room FROM due CROSS JOIN LATERAL (
  SELECT max_running - running AS room FROM sessions WHERE id = due.session OFFSET 0
) AS sessions
