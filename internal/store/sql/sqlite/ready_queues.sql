-- Finds the non-empty queues. A queue is the unannounced runs of one tenant and priority. It
-- steps from queue to queue, so its cost does not depend on how long they are.
-- Inputs: none.
-- Result: tenant, priority.
WITH RECURSIVE queue (tenant, priority) AS (
  SELECT * FROM (
    SELECT tenant, priority FROM ready INDEXED BY ready_queue WHERE announced_until = 0
    ORDER BY tenant, priority LIMIT 1
  )
  UNION ALL
  SELECT (
    SELECT next.tenant FROM ready AS next INDEXED BY ready_queue
    WHERE announced_until = 0 AND (next.tenant, next.priority) > (queue.tenant, queue.priority)
    ORDER BY next.tenant, next.priority LIMIT 1
  ), (
    SELECT next.priority FROM ready AS next INDEXED BY ready_queue
    WHERE announced_until = 0 AND (next.tenant, next.priority) > (queue.tenant, queue.priority)
    ORDER BY next.tenant, next.priority LIMIT 1
  )
  FROM queue WHERE queue.tenant IS NOT NULL
)
SELECT tenant, priority FROM queue WHERE tenant IS NOT NULL
