-- Reads a session's events after a number.
-- Inputs: ?1 session, ?2 number, ?3 how many.
-- Result: data, in order.
SELECT data FROM events WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3
