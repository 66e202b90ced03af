-- Reads approvals.
-- Inputs: ?1 JSON: [[session, id], …], ids in hexadecimal.
-- Result: rows of approvals, those that exist.
WITH wanted (a, b) AS (SELECT unhex(value ->> 0), unhex(value ->> 1) FROM json_each(?1))
SELECT {approvals} FROM wanted CROSS JOIN approvals ON session = a AND id = b
