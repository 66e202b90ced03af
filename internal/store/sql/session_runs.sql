-- Reads the ended runs of a session.
-- Inputs: ?1 session.
-- Result: rows of runs, in no order.
SELECT {runs} FROM {ended} WHERE session = ?1
