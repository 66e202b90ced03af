-- Finds the callbacks that may be taken.
-- Inputs: now, ?2 how many.
-- Result: rows of callbacks, the longest due first.
SELECT {callbacks} FROM callbacks WHERE due <= {now} ORDER BY due LIMIT ?2
