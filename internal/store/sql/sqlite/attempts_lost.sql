-- Finds the attempts whose replica is unknown or silent.
-- Inputs: ?1 the time since which it is silent.
-- Result: rows of attempts.
SELECT {attempts} FROM attempts
WHERE NOT EXISTS (SELECT 1 FROM replicas WHERE replicas.id = attempts.replica AND beat > ?1)
