-- Reads a session.
-- Inputs: ?1 session.
-- Result: rows of sessions.
SELECT {sessions} FROM sessions WHERE id = ?1
