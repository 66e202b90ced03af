-- Deletes replicas that have been silent for long.
-- Inputs: ?1 now, ?2 for how many microseconds.
-- Result: none.
DELETE FROM replicas WHERE beat < {now} - ?2
