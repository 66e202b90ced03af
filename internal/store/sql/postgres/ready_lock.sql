-- Makes sure that nobody else picks runs until the transaction ends. It waits for
-- whoever does, who waits for nobody.
-- Inputs: none.
-- Result: nothing of interest.
SELECT pg_advisory_xact_lock(4846217500273)
