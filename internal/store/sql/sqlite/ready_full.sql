-- Finds the sessions that hold runs back and may run more. It steps from session to
-- session, so that it does not matter how many runs they hold back.
-- Inputs: none.
-- Result: session, how many more it may run.
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
