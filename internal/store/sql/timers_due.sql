-- Finds the timers whose time has come.
-- Inputs: now, ?2 how many.
-- Result: rows of timers, the longest due first.
SELECT {timers} FROM timers WHERE due <= {now} ORDER BY due LIMIT ?2
