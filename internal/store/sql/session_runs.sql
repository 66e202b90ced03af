-- Reads how all runs of a session ended.
-- Inputs: ?1 session.
-- Result: rows of runs, in no order.
SELECT {runs} FROM {ended} WHERE session = ?1
