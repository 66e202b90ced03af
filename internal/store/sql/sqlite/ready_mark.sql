-- Says of a ready run how long its announcement is in force, or whether it is held back.
-- Inputs: ?1 announced_until, ?2 session, ?3 task, ?4 epoch.
-- Result: none.
UPDATE ready SET announced_until = ?1 WHERE session = ?2 AND task = ?3 AND epoch = ?4
