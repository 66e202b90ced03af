-- Reads the open calls of a task; only those of its last assistant message can be open.
-- Inputs: ?1 session, ?2 task, ?3 the state of closed calls.
-- Result: rows of calls, in block order.
SELECT {calls} FROM calls
WHERE session = ?1 AND task = ?2 AND {call state} <> ?3
  AND message = (SELECT open_message FROM tasks WHERE session = ?1 AND id = ?2)
ORDER BY block
