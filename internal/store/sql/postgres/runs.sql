-- Reads how runs have ended.
-- Inputs, of each: session, task, run.
-- Result: rows of runs, of those that are there.
SELECT {runs} FROM unnest(?1::bytea[], ?2::bytea[], ?3::bigint[]) AS wanted (a, b, c)
JOIN runs ON session = a AND task = b AND run = c
