-- Marks a worker as draining, for all replicas it is or will be connected to.
-- Inputs: ?1 now, ?2 worker, ?3 pool, ?4 slots, ?5 version, ?6 when it started.
-- Result: none.
INSERT INTO workers (replica, id, pool, slots, version, started_at, draining, drained_at)
VALUES ('', ?2, ?3, ?4, ?5, ?6, TRUE, {now})
ON CONFLICT (replica, id) DO UPDATE SET started_at = excluded.started_at, drained_at = excluded.drained_at
