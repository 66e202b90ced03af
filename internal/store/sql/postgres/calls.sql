-- Reads calls. Each is looked up by its key, whatever the planner's estimate of the
-- table's size.
-- Inputs, of each: session, task, message, block.
-- Result: rows of calls, those that exist.
SELECT found.* FROM (SELECT unnest(?1::bytea[]), unnest(?2::bytea[]), unnest(?3::bigint[]), unnest(?4::bigint[])) AS wanted (a, b, c, d) CROSS JOIN LATERAL (
  SELECT {calls} FROM calls WHERE session = a AND task = b AND message = c AND block = d OFFSET 0
) AS found
