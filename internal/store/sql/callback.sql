-- Reads the callback of a run.
-- Inputs: ?1 session, ?2 task, ?3 run.
-- Result: one row of callbacks, or none.
SELECT {callbacks} FROM callbacks WHERE session = ?1 AND task = ?2 AND run = ?3
