-- Looks whether any run might be announced, whether any that waits goes before others of its
-- session, and how many are announced.
-- Inputs: now, ?2 in how many microseconds every announcement has ended.
-- Result: whether; whether; how many announcements are in force.
SELECT EXISTS (SELECT 1 FROM ready {by ready_queue} WHERE announced_until = 0)
  OR EXISTS (SELECT 1 FROM ready {by ready_announced} WHERE announced_until > 0 AND announced_until <= {now})
  OR EXISTS (SELECT 1 FROM ready {by ready_announced} WHERE announced_until > 0 AND announced_until > {now} + ?2)
  OR EXISTS (SELECT 1 FROM ready {by ready_held} WHERE announced_until < 0),
  EXISTS (SELECT 1 FROM ready {by ready_first} WHERE announced_until <= 0 AND precedence > 0),
  (SELECT count(*) FROM ready {by ready_announced}
    WHERE announced_until > 0 AND announced_until > {now} AND announced_until <= {now} + ?2)
