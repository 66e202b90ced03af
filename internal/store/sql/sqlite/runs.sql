-- Reads ended runs.
-- Inputs: ?1 JSON: [[session, task, run], …], ids in hexadecimal.
-- Result: rows of runs, those that exist.
WITH wanted (a, b, c) AS (SELECT unhex(value ->> 0), unhex(value ->> 1), value ->> 2 FROM json_each(?1))
SELECT {runs} FROM wanted CROSS JOIN {ended} ON session = a AND task = b AND run = c
