-- Finds the next runs of a queue.
-- Inputs: ?1 tenant, ?2 priority, ?3 how many.
-- Result: rows of ready with how many more runs their session may have, next first.
SELECT {due}, max_running - running
FROM ready AS due INDEXED BY ready_queue CROSS JOIN sessions ON sessions.id = session
WHERE announced_until = 0 AND due.tenant = ?1 AND due.priority = ?2
ORDER BY due.fair_tag LIMIT ?3
