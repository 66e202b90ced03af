-- Records that a worker has streams to a replica.
-- Inputs: ?1 replica, ?2 worker, ?3 pool, ?4 slots, ?5 version, ?6 when it started.
-- Result: none.
INSERT INTO workers (replica, id, pool, slots, version, started_at, draining) VALUES (?1, ?2, ?3, ?4, ?5, ?6, FALSE)
ON CONFLICT (replica, id) DO UPDATE
SET pool = excluded.pool, slots = excluded.slots, version = excluded.version, started_at = excluded.started_at
