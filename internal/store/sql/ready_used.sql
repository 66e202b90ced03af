-- Counts the runs of each tenant that are with workers or announced. Expired announcements count
-- too, because such a run can still be claimed. Commands (kind 2) do not count.
-- Inputs: none.
-- Result: tenant, count.
SELECT tenant, count(*) FROM (
  SELECT (SELECT tenant FROM sessions WHERE id = attempts.session) AS tenant FROM attempts
  WHERE (SELECT kind FROM tasks WHERE tasks.session = attempts.session AND id = attempts.task) <> 2
  UNION ALL
  SELECT ready.tenant FROM ready {by ready_announced} WHERE announced_until > 0
) AS used GROUP BY tenant
