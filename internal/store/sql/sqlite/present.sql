-- Reads the time and the virtual time of the fair queue of sessions.
-- Inputs: now.
-- Result: now, virtual time.
SELECT {now}, fair_now FROM meta
