-- Reads the newest form of rows that all replicas can read.
-- Inputs: none.
-- Result: form.
SELECT coalesce(min(row_form), 0) FROM replicas
