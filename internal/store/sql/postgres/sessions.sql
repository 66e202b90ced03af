-- Reads sessions and locks them until the transaction ends, in the order of their
-- ids, in which everybody locks them.
-- Inputs, of each: id.
-- Result: rows of sessions, of those that are there.
SELECT {sessions} FROM sessions WHERE id = ANY (?1::bytea[]) ORDER BY id FOR UPDATE
