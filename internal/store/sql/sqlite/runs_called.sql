-- Reads the ended runs that the closed calls of a task refer to, starting at one of its messages.
-- Inputs: ?1 session, ?2 task, ?3 message.
-- Result: rows of runs.
SELECT {runs} FROM {ended} WHERE (session, task, run) IN (
  SELECT session, child, child_run FROM calls WHERE session = ?1 AND task = ?2 AND message >= ?3 AND {refers to outcome}
)
