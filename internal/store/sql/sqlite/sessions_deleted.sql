-- Finds sessions that were deleted and whose rows are not gone yet.
-- Inputs: ?1 how many.
-- Result: ids, those deleted first.
SELECT id FROM sessions WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT ?1
