-- Checks whether any ready run is held back.
-- Inputs: none.
-- Result: whether there is one.
SELECT EXISTS (SELECT 1 FROM ready {by ready_held} WHERE announced_until < 0)
