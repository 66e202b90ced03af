-- Locks sessions until the transaction ends, in the order of their ids (every
-- transaction uses this order), and fails with a division by zero if one of them has another
-- version. The ids are not compared with =, and the rows are ordered by the given ids. This
-- leaves the planner only a lookup of each by its key.
-- Inputs, of each: id, version.
-- Result: one row.
WITH known (a, b) AS (SELECT unnest(?1::bytea[]), unnest(?2::bigint[])),
held AS (SELECT id FROM known JOIN sessions ON id = ANY (ARRAY[a]) AND version = b ORDER BY a FOR UPDATE OF sessions)
SELECT 1 / ((SELECT count(*) FROM held) = (SELECT count(*) FROM known))::int
