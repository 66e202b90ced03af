-- Gives the ready runs of a session that have no row of ready one, in the order in which they were
-- made, after the tag of the session's last run.
-- Inputs: ?1 session, ?2 the replica that is to announce them.
-- Result: none.
INSERT INTO ready (session, task, epoch, priority, fair_tag, at, announced_until, tenant, replica, precedence)
SELECT tasks.session, tasks.id, tasks.epoch, tasks.priority,
  (SELECT fair_tag FROM sessions WHERE id = ?1) - count(*) OVER () + row_number() OVER (ORDER BY tasks.id),
  tasks.moved_at, 0, (SELECT tenant FROM sessions WHERE id = ?1), ?2, tasks.depth - 1
FROM tasks {claims} WHERE tasks.session = ?1 AND {unlisted}
