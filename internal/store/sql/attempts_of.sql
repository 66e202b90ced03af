-- Finds the attempts of a replica.
-- Inputs: ?1 replica.
-- Result: rows of attempts.
SELECT {attempts} FROM attempts WHERE replica = ?1
