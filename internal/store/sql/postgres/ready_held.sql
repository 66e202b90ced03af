-- Finds the next runs that a session holds back, and locks them; those that somebody
-- is changing at this moment are left for later.
-- Inputs: ?1 session, ?2 how many.
-- Result: rows of ready, the next first.
SELECT {ready} FROM ready WHERE session = ?1 AND announced_until < 0 ORDER BY priority, fair_tag LIMIT ?2 FOR UPDATE SKIP LOCKED
