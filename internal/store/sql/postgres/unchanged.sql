-- Locks sessions until the transaction ends, in the order of their ids, in which
-- everybody locks them, and fails with a division by zero if one of them has another
-- version. There is no equation of ids, and they are ordered as they were given, so that
-- the database can but look each up by its key.
-- Inputs, of each: id, version.
-- Result: one row.
WITH known (a, b) AS (SELECT unnest(?1::bytea[]), unnest(?2::bigint[])),
held AS (SELECT id FROM known JOIN sessions ON id = ANY (ARRAY[a]) AND version = b ORDER BY a FOR UPDATE OF sessions)
SELECT 1 / ((SELECT count(*) FROM held) = (SELECT count(*) FROM known))::int
