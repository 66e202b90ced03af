-- Deletes the workers of deleted replicas, and marks of draining workers (which have no replica)
-- that are older than a day. Workers that another replica still knows are kept.
-- Inputs: now.
-- Result: none.
DELETE FROM workers WHERE (SELECT id FROM replicas WHERE replicas.id = workers.replica) IS NULL
  AND drained_at < {now} - 86400000000
  AND (SELECT count(*) FROM workers AS there WHERE there.id = workers.id
    AND (SELECT id FROM replicas WHERE replicas.id = there.replica) IS NOT NULL) = 0
