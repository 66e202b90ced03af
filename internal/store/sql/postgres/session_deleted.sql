-- Looks whether a session was deleted, and locks it until the transaction ends: nobody else
-- takes the last of it away meanwhile, after which its id may be used again.
-- Inputs: ?1 session.
-- Result: whether; no row if it is gone.
SELECT deleted_at IS NOT NULL FROM sessions WHERE id = ?1 FOR UPDATE
