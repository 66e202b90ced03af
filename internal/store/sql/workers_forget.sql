-- Forgets the workers of replicas of which nothing is known.
-- Inputs: none.
-- Result: none.
DELETE FROM workers WHERE NOT EXISTS (SELECT 1 FROM replicas WHERE replicas.id = workers.replica)
