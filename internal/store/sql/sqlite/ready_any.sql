-- Looks whether any run might be announced.
-- Inputs: ?1 now.
-- Result: whether.
SELECT EXISTS (SELECT 1 FROM ready WHERE announced_until = 0)
  OR EXISTS (SELECT 1 FROM ready WHERE announced_until > 0 AND announced_until <= ?1)
  OR EXISTS (SELECT 1 FROM ready WHERE announced_until < 0)
