-- Checks whether any run may be announced and whether any waiting run has precedence over others
-- of its session, and counts the announcements.
-- Inputs: now, ?2 microseconds from now, the latest time at which an announcement can expire.
-- Result: any may be announced; any has precedence; announcements that have not expired; any
-- session has runs without a row.
SELECT EXISTS (SELECT 1 FROM ready {by ready_queue} WHERE announced_until = 0)
  OR EXISTS (SELECT 1 FROM ready {by ready_announced} WHERE announced_until > 0 AND announced_until <= {now})
  OR EXISTS (SELECT 1 FROM ready {by ready_announced} WHERE announced_until > 0 AND announced_until > {now} + ?2)
  OR EXISTS (SELECT 1 FROM ready {by ready_held} WHERE announced_until < 0),
  EXISTS (SELECT 1 FROM ready {by ready_first} WHERE announced_until <= 0 AND precedence > 0),
  (SELECT count(*) FROM ready {by ready_announced}
    WHERE announced_until > 0 AND announced_until > {now} AND announced_until <= {now} + ?2),
  EXISTS (SELECT 1 FROM sessions {by sessions_unlisted} WHERE unlisted)
