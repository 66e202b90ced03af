-- Takes the beats of replicas that come from the future for beats of now: the clock has been set
-- back. Who lives beats again within a second, and the others are silent since then.
-- Inputs: now.
-- Result: none.
UPDATE replicas SET beat = {now} WHERE beat > {now} + 1000000
