-- Reads how the runs have ended that the closed calls of a task tell of, from one of its messages on.
-- Inputs: ?1 session, ?2 task, ?3 message.
-- Result: rows of runs.
SELECT {runs} FROM {ended} WHERE (session, task, run) IN (
  SELECT session, child, child_run FROM calls WHERE session = ?1 AND task = ?2 AND message >= ?3 AND by_outcome
)
