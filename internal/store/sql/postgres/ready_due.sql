-- Finds the next runs of a queue. Skips rows that are locked.
-- Inputs: ?1 tenant, ?2 priority, ?3 how many.
-- Result: rows of ready with how many more runs their session may have, next first.
WITH due AS MATERIALIZED (
  SELECT {ready} FROM ready WHERE announced_until = 0 AND tenant = ?1 AND priority = ?2
  ORDER BY fair_tag LIMIT ?3 FOR UPDATE SKIP LOCKED
)
SELECT {due}, room FROM due CROSS JOIN LATERAL (
  SELECT max_running - running AS room FROM sessions WHERE id = due.session OFFSET 0
) AS sessions ORDER BY due.fair_tag
