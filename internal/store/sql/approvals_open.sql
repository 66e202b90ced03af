-- Counts the open approvals of all tenants, up to a limit, and reads the age of the oldest one.
-- Ids of approvals are in the order in which they were requested.
-- Inputs: ?1 now, ?2 how many to count.
-- Result: count, age of the oldest in microseconds.
SELECT count(*), coalesce((SELECT {now} - asked_at FROM approvals WHERE state = 1 ORDER BY id LIMIT 1), 0)
FROM (SELECT id FROM approvals WHERE state = 1 LIMIT ?2) AS open
