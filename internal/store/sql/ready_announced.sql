-- Counts the announcements in force.
-- Inputs: ?1 now, ?2 when every announcement has ended.
-- Result: session, count.
SELECT session, count(*) FROM ready {by ready_announced}
WHERE announced_until > 0 AND announced_until > ?1 AND announced_until <= ?2 GROUP BY session
