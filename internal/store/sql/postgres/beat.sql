-- Says that a replica is alive, and forgets the batches of more than an hour ago:
-- whoever doubted whether they were committed has long found out. Their ids begin with the
-- milliseconds of the clock of who made them, which may be another one.
-- Inputs: ?1 now, ?2 replica, ?3 how many runs its workers can carry, ?4 the form of
-- rows that it reads.
-- Result: none.
WITH doubted AS (
  SELECT id FROM batches WHERE id < substring(int8send(({now} - 3600000000) / 1000) FROM 3) AND at < {now} - 3600000000
  FOR UPDATE SKIP LOCKED
), forgotten AS (
  DELETE FROM batches USING doubted WHERE batches.id = ANY (ARRAY[doubted.id])
)
INSERT INTO replicas (id, beat, slots, row_form) VALUES (?2, {now}, ?3, ?4)
ON CONFLICT (id) DO UPDATE SET beat = excluded.beat, slots = excluded.slots, row_form = excluded.row_form
