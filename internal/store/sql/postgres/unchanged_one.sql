-- Does for one session what "unchanged" does for several, for a third of the work.
-- Inputs: ?1 id, ?2 version.
-- Result: one row.
SELECT 1 / (SELECT count(*) FROM (SELECT FROM sessions WHERE id = ?1 AND version = ?2 FOR UPDATE) AS held)::int
