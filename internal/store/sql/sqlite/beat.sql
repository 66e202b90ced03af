-- Says that a replica is alive.
-- Inputs: ?1 replica, ?2 time.
-- Result: none.
INSERT INTO replicas (id, beat) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET beat = excluded.beat
