-- Lists the workers of replicas that are alive. One that was to drain does as long as it is the
-- same process.
-- Inputs: ?1 now, ?2 for how many microseconds a replica may have been silent.
-- Result: id, pool, slots, version, when it began, whether it is draining, replica; by id.
SELECT id, pool, slots, version, started_at, coalesce((
  SELECT told.started_at = workers.started_at FROM workers AS told WHERE told.replica = '' AND told.id = workers.id
), FALSE), replica FROM workers
WHERE (SELECT beat > {now} - ?2 FROM replicas WHERE replicas.id = workers.replica) IS TRUE
ORDER BY id, started_at DESC, replica
