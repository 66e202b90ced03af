-- Finds the attempts whose replica is unknown or silent.
-- Inputs: now, ?2 for how many microseconds it has to be silent.
-- Result: rows of attempts.
SELECT {attempts} FROM attempts
WHERE (SELECT beat > {now} - ?2 FROM replicas WHERE replicas.id = attempts.replica) IS NOT TRUE
