-- Records the heartbeat of a replica.
-- Inputs: ?1 now, ?2 replica, ?3 the slots of its workers, ?4 the newest form
-- of rows that it reads.
-- Result: none.
INSERT INTO replicas (id, beat, slots, row_form) VALUES (?2, {now}, ?3, ?4)
ON CONFLICT (id) DO UPDATE SET beat = excluded.beat, slots = excluded.slots, row_form = excluded.row_form
