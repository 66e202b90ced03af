-- Sets heartbeats that lie in the future to now: the clock has been set back. A live replica
-- sends another heartbeat within a second; any other counts as silent from now on.
-- Inputs: now.
-- Result: none.
UPDATE replicas SET beat = {now} WHERE beat > {now} + 1000000
