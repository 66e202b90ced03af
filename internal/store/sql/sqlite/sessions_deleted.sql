-- Finds deleted sessions that still have rows.
-- Inputs: ?1 how many.
-- Result: ids, earliest deleted first.
SELECT id FROM sessions WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT ?1
