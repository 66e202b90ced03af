-- Finds the runs whose announcement has expired.
-- Inputs: ?1 now, ?2 the latest time at which an announcement can expire. One that expires later
-- was made before the clock was set back.
-- Result: rows of ready with how many more runs their session may have.
SELECT {due}, max_running - running
FROM ready AS due {by ready_announced} CROSS JOIN sessions ON sessions.id = session
WHERE announced_until > 0 AND (announced_until <= ?1 OR announced_until > ?2)
