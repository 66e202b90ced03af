-- Counts the replicas that are alive, and the runs that all their workers can carry.
-- Inputs: ?1 now, ?2 for how many microseconds a replica may have been silent.
-- Result: replicas, runs.
SELECT count(*), coalesce(sum(slots), 0) FROM replicas WHERE beat > {now} - ?2
