-- Finds and locks the next held-back runs of a session. Skips rows that are locked.
-- Inputs: ?1 session, ?2 how many.
-- Result: rows of ready, next first.
SELECT {ready} FROM ready WHERE session = ?1 AND announced_until < 0 ORDER BY priority, fair_tag LIMIT ?2 FOR UPDATE SKIP LOCKED
