-- Reads how the runs have ended that the closed calls of a task tell of, from one of its
-- messages on. Each run is looked up by its key, whatever the database takes the tables'
-- sizes for: OFFSET keeps it from joining them in another order.
-- Inputs: ?1 session, ?2 task, ?3 message.
-- Result: rows of runs.
SELECT found.* FROM calls CROSS JOIN LATERAL (
  SELECT {runs} FROM {ended} WHERE session = calls.session AND task = calls.child AND run = calls.child_run OFFSET 0
) AS found WHERE calls.session = ?1 AND calls.task = ?2 AND calls.message >= ?3 AND calls.by_outcome
