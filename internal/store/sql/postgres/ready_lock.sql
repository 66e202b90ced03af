-- Lets only one picker work until the transaction ends. It waits for another picker, which waits
-- for nothing.
-- Inputs: none.
-- Result: one row without meaning.
SELECT pg_advisory_xact_lock(4846217500273)
