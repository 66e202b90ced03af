-- Forgets replicas that have long been silent.
-- Inputs: ?1 now, ?2 for how many microseconds.
-- Result: none.
DELETE FROM replicas WHERE beat < {now} - ?2
