-- Forgets the workers of replicas of which nothing is known, and of those that were to drain
-- which it was a day ago and that no replica knows any more.
-- Inputs: now.
-- Result: none.
DELETE FROM workers WHERE (SELECT id FROM replicas WHERE replicas.id = workers.replica) IS NULL
  AND drained_at < {now} - 86400000000
  AND (SELECT count(*) FROM workers AS there WHERE there.id = workers.id
    AND (SELECT id FROM replicas WHERE replicas.id = there.replica) IS NOT NULL) = 0
