-- Finds the sessions that have held-back runs and room for more. It steps from session to
-- session, so its cost does not depend on how many runs are held back.
-- Inputs: none.
-- Result: session, how many more runs it may have.
WITH RECURSIVE holding (session) AS (
  (SELECT session FROM ready WHERE announced_until < 0 ORDER BY session LIMIT 1)
  UNION ALL
  SELECT (
    SELECT ready.session FROM ready
    WHERE announced_until < 0 AND ready.session > holding.session ORDER BY ready.session LIMIT 1
  )
  FROM holding WHERE holding.session IS NOT NULL
)
SELECT session, room FROM holding CROSS JOIN LATERAL (
  SELECT max_running - running AS room FROM sessions WHERE id = session OFFSET 0
) AS held WHERE room > 0
