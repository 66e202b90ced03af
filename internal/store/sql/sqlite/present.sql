-- Reads what the time is and how far the turns of sessions have come.
-- Inputs: now.
-- Result: now, tag.
SELECT {now}, fair_now FROM meta
