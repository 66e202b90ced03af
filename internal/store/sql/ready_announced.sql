-- Counts the announcements that have not expired, by session.
-- Inputs: ?1 now, ?2 the latest time at which an announcement can expire.
-- Result: session, count.
SELECT session, count(*) FROM ready {by ready_announced}
WHERE announced_until > 0 AND announced_until > ?1 AND announced_until <= ?2 GROUP BY session
