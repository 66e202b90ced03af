-- Does nothing: the transaction already keeps other pickers out.
-- Inputs: none.
-- Result: one row without meaning.
SELECT 1
