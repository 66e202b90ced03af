-- Reads what the time is, when everything is locked that has to be, and how far the
-- turns of sessions have come.
-- Inputs: now.
-- Result: now, tag.
SELECT coalesce(?1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), fair_now FROM meta
