-- Finds deleted sessions that still have rows, and locks them until the transaction ends, so that
-- nobody else removes the last row of one meanwhile: after that its id may be used again. Skips
-- sessions that are locked.
-- Inputs: ?1 how many.
-- Result: ids, earliest deleted first.
SELECT id FROM sessions WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT ?1 FOR UPDATE SKIP LOCKED
