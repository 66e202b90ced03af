-- Finds sessions with ready runs that have no row of ready.
-- Inputs: ?1 how many at most.
-- Result: id.
SELECT id FROM sessions {by sessions_unlisted} WHERE unlisted LIMIT ?1
