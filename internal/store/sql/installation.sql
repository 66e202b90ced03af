-- Reads which database this is.
-- Inputs: none.
-- Result: installation; no row in a new database.
SELECT installation FROM meta
