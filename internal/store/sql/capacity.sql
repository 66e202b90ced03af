-- Counts the live replicas and the slots of all their workers.
-- Inputs: ?1 now, ?2 microseconds without a heartbeat after which a replica is silent.
-- Result: replicas, slots.
SELECT count(*), coalesce(sum(slots), 0) FROM replicas WHERE beat > {now} - ?2
