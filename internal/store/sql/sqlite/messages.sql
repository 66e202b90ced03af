-- Reads messages.
-- Inputs: ?1 JSON: [[session, task, ordinal], …], ids in hexadecimal.
-- Result: rows of messages, those that exist.
WITH wanted (a, b, c) AS (SELECT unhex(value ->> 0), unhex(value ->> 1), value ->> 2 FROM json_each(?1))
SELECT {messages} FROM wanted CROSS JOIN messages ON session = a AND task = b AND ordinal = c
