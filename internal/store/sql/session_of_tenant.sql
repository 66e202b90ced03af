-- Reads a session if it is the tenant's, and was not deleted.
-- Inputs: ?1 session, ?2 tenant.
-- Result: rows of sessions.
SELECT {sessions} FROM sessions WHERE id = ?1 AND tenant = ?2 AND deleted_at IS NULL
