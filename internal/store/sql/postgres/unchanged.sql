-- Locks sessions until the transaction ends, in the order of their ids, in which
-- everybody locks them, and fails with a division by zero if one of them has another
-- version.
-- Inputs, of each: id, version.
-- Result: one row.
WITH known (a, b) AS (SELECT * FROM unnest(?1::bytea[], ?2::bigint[])),
held AS (SELECT id FROM known JOIN sessions ON id = a AND version = b ORDER BY id FOR UPDATE OF sessions)
SELECT 1 / ((SELECT count(*) FROM held) = (SELECT count(*) FROM known))::int
