-- Reads ended runs. Each is looked up by its key, whatever the planner's estimate of the table's
-- size.
-- Inputs, of each: session, task, run.
-- Result: rows of runs, those that exist.
SELECT found.* FROM (SELECT unnest(?1::bytea[]), unnest(?2::bytea[]), unnest(?3::bigint[])) AS wanted (a, b, c) CROSS JOIN LATERAL (
  SELECT {runs} FROM {ended} WHERE session = a AND task = b AND run = c OFFSET 0
) AS found
