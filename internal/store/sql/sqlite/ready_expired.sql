-- Finds the runs that nobody has claimed in time.
-- Inputs: ?1 now, ?2 when every announcement has ended: the clock has been set back since one was
-- made that ends later.
-- Result: rows of ready with how many more their session may run.
SELECT {due}, max_running - running
FROM ready AS due {by ready_announced} CROSS JOIN sessions ON sessions.id = session
WHERE announced_until > 0 AND (announced_until <= ?1 OR announced_until > ?2)
