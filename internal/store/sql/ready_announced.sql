-- Counts the announcements in force.
-- Inputs: ?1 now.
-- Result: session, count.
SELECT session, count(*) FROM ready {by ready_announced}
WHERE announced_until > 0 AND announced_until > ?1 GROUP BY session
