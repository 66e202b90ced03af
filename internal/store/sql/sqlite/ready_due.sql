-- Finds the next runs that nobody has announced.
-- Inputs: ?1 how many.
-- Result: rows of ready with how many more their session may run, the next first.
SELECT {ready}, max_running - running
FROM ready INDEXED BY ready_due CROSS JOIN sessions ON sessions.id = session
WHERE announced_until = 0
ORDER BY priority, fair_tag LIMIT ?1
