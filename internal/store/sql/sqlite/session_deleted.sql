-- Looks whether a session was deleted.
-- Inputs: ?1 session.
-- Result: whether; no row if it is gone.
SELECT deleted_at IS NOT NULL FROM sessions WHERE id = ?1
