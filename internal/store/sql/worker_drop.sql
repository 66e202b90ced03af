-- Records that a worker has no stream to a replica any more.
-- Inputs: ?1 replica, ?2 worker.
-- Result: none.
DELETE FROM workers WHERE replica = ?1 AND id = ?2
