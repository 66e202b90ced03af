-- Counts the runs that all workers can carry.
-- Inputs: ?1 now, ?2 for how many microseconds a replica may have been silent.
-- Result: count.
SELECT coalesce(sum(slots), 0) FROM replicas WHERE beat > {now} - ?2
