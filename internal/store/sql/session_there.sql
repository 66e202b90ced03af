-- Looks whether there is a session that was not deleted, whichever tenant has it.
-- Inputs: ?1 session.
-- Result: its id.
SELECT id FROM sessions WHERE id = ?1 AND deleted_at IS NULL
