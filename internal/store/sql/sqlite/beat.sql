-- Says that a replica is alive.
-- Inputs: now, ?2 replica.
-- Result: none.
INSERT INTO replicas (id, beat, slots) VALUES (?2, {now}, ?3)
ON CONFLICT (id) DO UPDATE SET beat = excluded.beat, slots = excluded.slots
