-- Reads the ready runs of a session.
-- Inputs: ?1 session.
-- Result: rows of ready, in no order.
SELECT {ready} FROM ready WHERE session = ?1
