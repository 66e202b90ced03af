-- Reads sessions.
-- Inputs: ?1 JSON: [[session], …], ids in hexadecimal.
-- Result: rows of sessions, those that exist.
WITH wanted (a) AS (SELECT unhex(value ->> 0) FROM json_each(?1))
SELECT {sessions} FROM wanted CROSS JOIN sessions ON id = a
