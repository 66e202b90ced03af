-- Reads which form of rows all replicas read.
-- Inputs: none.
-- Result: form.
SELECT coalesce(min(row_form), 0) FROM replicas
