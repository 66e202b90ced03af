-- Reads a session that was not deleted.
-- Inputs: ?1 session.
-- Result: rows of sessions.
SELECT {sessions} FROM sessions WHERE id = ?1 AND deleted_at IS NULL
