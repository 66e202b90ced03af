-- Finds the non-empty queues. A queue is the unannounced runs of one tenant and priority. It
-- steps from queue to queue, so its cost does not depend on how long they are.
-- Inputs: none.
-- Result: tenant, priority.
WITH RECURSIVE queue AS (
  (SELECT tenant, priority FROM ready WHERE announced_until = 0 ORDER BY tenant, priority LIMIT 1)
  UNION ALL
  SELECT next.tenant, next.priority FROM queue CROSS JOIN LATERAL (
    SELECT tenant, priority FROM ready
    WHERE announced_until = 0 AND (ready.tenant, ready.priority) > (queue.tenant, queue.priority)
    ORDER BY tenant, priority LIMIT 1
  ) AS next
)
SELECT tenant, priority FROM queue
