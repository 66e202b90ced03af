-- Says that a replica is alive.
-- Inputs: now, ?2 replica.
-- Result: none.
INSERT INTO replicas (id, beat) VALUES (?2, {now}) ON CONFLICT (id) DO UPDATE SET beat = excluded.beat
