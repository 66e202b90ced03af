-- Gives a ready run the tag of the run that took its turn.
-- Inputs: ?1 fair_tag, ?2 session, ?3 task, ?4 epoch.
-- Result: none.
UPDATE ready SET fair_tag = ?1 WHERE session = ?2 AND task = ?3 AND epoch = ?4
