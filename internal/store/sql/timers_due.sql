-- Finds the timers that are due.
-- Inputs: now, ?2 how many.
-- Result: rows of timers, longest due first.
SELECT {timers} FROM timers WHERE due <= {now} ORDER BY due LIMIT ?2
