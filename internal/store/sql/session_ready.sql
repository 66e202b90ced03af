-- Reads the ready runs of a session, also those without a row of ready.
-- Inputs: ?1 session.
-- Result: rows of ready, in no order.
SELECT {ready} FROM ready WHERE session = ?1
UNION ALL
SELECT tasks.session, tasks.id, tasks.epoch, tasks.priority, (SELECT fair_tag FROM sessions WHERE id = ?1),
  tasks.moved_at, 0, (SELECT tenant FROM sessions WHERE id = ?1), '', tasks.depth - 1
FROM tasks {claims} WHERE tasks.session = ?1 AND (SELECT unlisted FROM sessions WHERE id = ?1) AND {unlisted}
