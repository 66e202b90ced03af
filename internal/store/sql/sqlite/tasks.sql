-- Reads tasks.
-- Inputs: ?1 JSON: [[session, task], …], ids in hexadecimal.
-- Result: rows of tasks, those that exist.
WITH wanted (a, b) AS (SELECT unhex(value ->> 0), unhex(value ->> 1) FROM json_each(?1))
SELECT {tasks} FROM wanted CROSS JOIN tasks ON tasks.session = a AND id = b {claims}
