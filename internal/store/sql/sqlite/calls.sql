-- Reads calls.
-- Inputs: ?1 JSON: [[session, task, message, block], …], ids in hexadecimal.
-- Result: rows of calls, those that exist.
WITH wanted (a, b, c, d) AS (
  SELECT unhex(value ->> 0), unhex(value ->> 1), value ->> 2, value ->> 3 FROM json_each(?1)
)
SELECT {calls} FROM wanted CROSS JOIN calls ON session = a AND task = b AND message = c AND block = d
