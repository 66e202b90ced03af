-- Finds sessions that were deleted and whose rows are not gone yet, and locks them until the
-- transaction ends: nobody else takes the last of one away meanwhile, after which its id may be
-- used again. Those that somebody has locked are left to them.
-- Inputs: ?1 how many.
-- Result: ids, those deleted first.
SELECT id FROM sessions WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT ?1 FOR UPDATE SKIP LOCKED
