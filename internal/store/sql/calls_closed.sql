-- Reads the closed calls of a task's messages.
-- Inputs: ?1 session, ?2 task, ?3 the first and ?4 the last message, ?5 the state of
-- closed calls.
-- Result: rows of calls, in the order of messages and blocks.
SELECT {calls} FROM calls
WHERE session = ?1 AND task = ?2 AND message BETWEEN ?3 AND ?4 AND {call state} = ?5
ORDER BY message, block
