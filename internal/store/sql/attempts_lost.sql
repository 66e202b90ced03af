-- Finds the attempts whose replica is unknown or silent.
-- Inputs: now, ?2 for how many microseconds it has to be silent.
-- Result: rows of attempts.
SELECT {attempts} FROM attempts
WHERE NOT EXISTS (SELECT 1 FROM replicas WHERE replicas.id = attempts.replica AND beat > {now} - ?2)
