-- Checks whether a session exists and was not deleted, in any tenant.
-- Inputs: ?1 session.
-- Result: its id.
SELECT id FROM sessions WHERE id = ?1 AND deleted_at IS NULL
