-- Reads the time, after all locks have been taken, and the virtual time of the fair queue of
-- sessions.
-- Inputs: now.
-- Result: now, virtual time.
SELECT coalesce(?1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), fair_now FROM meta
