-- Forgets the workers of replicas of which nothing is known.
-- Inputs: none.
-- Result: none.
DELETE FROM workers WHERE (SELECT id FROM replicas WHERE replicas.id = workers.replica) IS NULL
