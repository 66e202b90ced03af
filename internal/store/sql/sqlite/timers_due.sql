-- Finds the timers whose time has come.
-- Inputs: ?1 now, ?2 how many.
-- Result: rows of timers, the longest due first.
SELECT {timers} FROM timers WHERE due <= ?1 ORDER BY due LIMIT ?2
