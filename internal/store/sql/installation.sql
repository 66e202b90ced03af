-- Reads the id of the installation.
-- Inputs: none.
-- Result: installation; no row if the database is new.
SELECT installation FROM meta
