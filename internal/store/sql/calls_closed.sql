-- Reads the closed calls of a message.
-- Inputs: ?1 session, ?2 task, ?3 message, ?4 the state of closed calls.
-- Result: rows of calls, in block order.
SELECT {calls} FROM calls WHERE session = ?1 AND task = ?2 AND message = ?3 AND state = ?4 ORDER BY block
