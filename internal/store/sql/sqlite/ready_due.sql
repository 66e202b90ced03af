-- Finds the next runs that nobody has announced.
-- Inputs: ?1 how many.
-- Result: rows of ready with how many more their session may run, the next first.
SELECT {due}, max_running - running
FROM ready AS due {by ready_due} CROSS JOIN sessions ON sessions.id = session
WHERE announced_until = 0
ORDER BY due.priority, due.fair_tag LIMIT ?1
