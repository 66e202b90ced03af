-- Finds sessions with ready runs that have no row of ready, in the order of their ids.
-- Inputs: ?1 the id before, ?2 how many at most.
-- Result: id.
SELECT id FROM sessions {by sessions_unlisted} WHERE unlisted AND id > ?1 ORDER BY id LIMIT ?2
