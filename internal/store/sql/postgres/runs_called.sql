-- Reads the ended runs that the closed calls of a task refer to, starting at one of its messages.
-- OFFSET fixes the join order, so each run is looked up by its key, whatever the planner's
-- estimate of the tables' sizes.
-- Inputs: ?1 session, ?2 task, ?3 message.
-- Result: rows of runs.
SELECT found.* FROM calls CROSS JOIN LATERAL (
  SELECT {runs} FROM {ended} WHERE session = calls.session AND task = calls.child AND run = calls.child_run OFFSET 0
) AS found WHERE calls.session = ?1 AND calls.task = ?2 AND calls.message >= ?3 AND {refers to outcome}
