-- Reads a call.
-- Inputs: ?1 session, ?2 task, ?3 message, ?4 block.
-- Result: rows of calls.
SELECT {calls} FROM calls WHERE session = ?1 AND task = ?2 AND message = ?3 AND block = ?4
