-- Counts the open approvals of all tenants, up to a bound, and says how long the oldest one has
-- been open: their ids are in the order in which they were asked.
-- Inputs: ?1 now, ?2 how many to count.
-- Result: how many, for how long.
SELECT count(*), coalesce((SELECT {now} - asked_at FROM approvals WHERE state = 1 ORDER BY id LIMIT 1), 0)
FROM (SELECT id FROM approvals WHERE state = 1 LIMIT ?2) AS open
