-- Makes sure that nobody else picks runs: the transaction does.
-- Inputs: none.
-- Result: nothing of interest.
SELECT 1
