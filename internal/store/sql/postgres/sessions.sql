-- Reads sessions and locks them until the transaction ends, in the order of their
-- ids: every transaction uses this order.
-- Inputs, of each: id.
-- Result: rows of sessions, those that exist.
SELECT {sessions} FROM sessions WHERE id = ANY (?1::bytea[]) ORDER BY id FOR UPDATE
