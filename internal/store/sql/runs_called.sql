-- Reads how the runs have ended that the closed calls of a task tell of.
-- Inputs: ?1 session, ?2 task.
-- Result: rows of runs.
SELECT {runs} FROM runs WHERE (session, task, run) IN (
  SELECT session, child, child_run FROM calls WHERE session = ?1 AND task = ?2 AND by_outcome
)
