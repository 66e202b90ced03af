-- The same as "unchanged" for one session, for a third of the cost.
-- Inputs: ?1 id, ?2 version.
-- Result: one row.
SELECT 1 / (SELECT count(*) FROM (SELECT FROM sessions WHERE id = ?1 AND version = ?2 FOR UPDATE) AS held)::int
