-- Reads calls.
-- Inputs, of each: session, task, message, block.
-- Result: rows of calls, of those that are there.
SELECT {calls} FROM unnest(?1::bytea[], ?2::bytea[], ?3::bigint[], ?4::bigint[]) AS wanted (a, b, c, d)
JOIN calls ON session = a AND task = b AND message = c AND block = d
