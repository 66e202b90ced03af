-- Lists the workers of a replica. A worker stays draining as long as it is the same process.
-- Inputs: ?1 replica.
-- Result: id, pool, slots, version, when it started, whether it is draining.
SELECT id, pool, slots, version, started_at, coalesce((
  SELECT told.started_at = workers.started_at FROM workers AS told WHERE told.replica = '' AND told.id = workers.id
), FALSE) FROM workers WHERE replica = ?1
