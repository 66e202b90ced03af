-- Finds the waiting runs of a session that have precedence over others.
-- Inputs: ?1 session, ?2 priority, ?3 how many.
-- Result: rows of ready, highest precedence first.
SELECT {ready} FROM ready INDEXED BY ready_first WHERE session = ?1 AND priority = ?2 AND announced_until <= 0 AND precedence > 0
ORDER BY precedence DESC, fair_tag LIMIT ?3
