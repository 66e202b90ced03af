-- Reads the attempts of a session.
-- Inputs: ?1 session.
-- Result: rows of attempts, in no order.
SELECT {attempts} FROM attempts WHERE session = ?1
