-- Lists the workers of a replica.
-- Inputs: ?1 replica.
-- Result: id, pool, slots, version, when it began, whether it is draining.
SELECT id, pool, slots, version, started_at, draining FROM workers WHERE replica = ?1
