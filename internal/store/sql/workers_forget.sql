-- Deletes workers whose replica has been deleted, if they were marked as draining more than a
-- day ago and no replica knows them any more.
-- Inputs: now.
-- Result: none.
DELETE FROM workers WHERE (SELECT id FROM replicas WHERE replicas.id = workers.replica) IS NULL
  AND drained_at < {now} - 86400000000
  AND (SELECT count(*) FROM workers AS there WHERE there.id = workers.id
    AND (SELECT id FROM replicas WHERE replicas.id = there.replica) IS NOT NULL) = 0
