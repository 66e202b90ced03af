-- Records the heartbeat of a replica, and deletes batches that are older than an hour: nobody asks
-- any more whether they were committed. It deletes more than a replica adds between two heartbeats,
-- but not all of them: after a long stop they are so many that no heartbeat would be done in time.
-- Their ids begin with the milliseconds of the clock of their replica, which may differ from this
-- one.
-- Inputs: ?1 now, ?2 replica, ?3 the slots of its workers, ?4 the newest form
-- of rows that it reads.
-- Result: none.
WITH doubted AS (
  SELECT id FROM batches WHERE id < substring(int8send(({now} - 3600000000) / 1000) FROM 3) AND at < {now} - 3600000000
  ORDER BY id LIMIT 10000 FOR UPDATE SKIP LOCKED
), forgotten AS (
  DELETE FROM batches USING doubted WHERE batches.id = ANY (ARRAY[doubted.id])
)
INSERT INTO replicas (id, beat, slots, row_form) VALUES (?2, {now}, ?3, ?4)
ON CONFLICT (id) DO UPDATE SET beat = excluded.beat, slots = excluded.slots, row_form = excluded.row_form
