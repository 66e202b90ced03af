-- Says how far the turns of sessions have come.
-- Inputs: ?1 the tag of a run that was offered.
-- Result: none.
UPDATE meta SET fair_now = ?1 WHERE fair_now < ?1
