-- Finds the attempts whose replica is unknown or silent.
-- Inputs: now, ?2 microseconds without a heartbeat after which a replica is silent.
-- Result: rows of attempts.
SELECT {attempts} FROM attempts
WHERE (SELECT beat > {now} - ?2 FROM replicas WHERE replicas.id = attempts.replica) IS NOT TRUE
