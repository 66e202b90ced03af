-- Reads how a run has ended.
-- Inputs: ?1 session, ?2 task, ?3 run.
-- Result: rows of runs.
SELECT {runs} FROM runs WHERE session = ?1 AND task = ?2 AND run = ?3
