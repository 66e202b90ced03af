-- Lists the workers of live replicas. A worker stays draining as long as it is the same process.
-- Inputs: ?1 now, ?2 microseconds without a heartbeat after which a replica is silent.
-- Result: id, pool, slots, version, when it started, whether it is draining, replica; by id.
SELECT id, pool, slots, version, started_at, coalesce((
  SELECT told.started_at = workers.started_at FROM workers AS told WHERE told.replica = '' AND told.id = workers.id
), FALSE), replica FROM workers
WHERE (SELECT beat > {now} - ?2 FROM replicas WHERE replicas.id = workers.replica) IS TRUE
ORDER BY id, started_at DESC, replica
