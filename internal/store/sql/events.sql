-- Reads the rows of a session's log between two numbers.
-- Inputs: ?1 session, ?2 the number before the first, ?3 the number after the last.
-- Result: seq, data, in order.
SELECT seq, data FROM events WHERE session = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq
