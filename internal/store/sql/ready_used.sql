-- Counts what each tenant runs, or may run since it was announced, whether in time or
-- not: a run can only be claimed while it is announced. Commands (kind 2) do not count.
-- Inputs: none.
-- Result: tenant, count.
SELECT tenant, count(*) FROM (
  SELECT (SELECT tenant FROM sessions WHERE id = attempts.session) AS tenant FROM attempts
  WHERE (SELECT kind FROM tasks WHERE tasks.session = attempts.session AND id = attempts.task) <> 2
  UNION ALL
  SELECT ready.tenant FROM ready {by ready_announced} WHERE announced_until > 0
) AS used GROUP BY tenant
