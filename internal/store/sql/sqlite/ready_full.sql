-- Finds the sessions that have held-back runs and room for more. It steps from session to
-- session, so its cost does not depend on how many runs are held back.
-- Inputs: none.
-- Result: session, how many more runs it may have.
WITH RECURSIVE holding (session) AS (
  SELECT min(session) FROM ready {by ready_held} WHERE announced_until < 0
  UNION ALL
  SELECT (
    SELECT min(ready.session) FROM ready {by ready_held}
    WHERE announced_until < 0 AND ready.session > holding.session
  )
  FROM holding WHERE holding.session IS NOT NULL
)
SELECT session, max_running - running
FROM holding CROSS JOIN sessions ON sessions.id = session
WHERE running < max_running
