-- Reads the ready runs of all sessions.
-- Inputs: ?1 how many at most.
-- Result: rows of ready, in no order.
SELECT {ready} FROM ready LIMIT ?1
