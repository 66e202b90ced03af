-- Reads the calls of a session that are not closed.
-- Inputs: ?1 session, ?2 the state of closed calls.
-- Result: rows of calls, in no order.
SELECT {calls} FROM calls WHERE session = ?1 AND {call state} <> ?2
