-- Sets until when a ready run is announced, or marks it as held back.
-- Inputs: ?1 announced_until, ?2 session, ?3 task, ?4 epoch.
-- Result: none.
UPDATE ready SET announced_until = ?1 WHERE session = ?2 AND task = ?3 AND epoch = ?4
