-- Counts what each tenant runs, or may run since it was announced, whether in time or
-- not: a run can only be claimed while it is announced. Commands (kind 2) do not count.
-- Inputs: none.
-- Result: tenant, count.
SELECT tenant, count(*) FROM (
  SELECT sessions.tenant FROM attempts JOIN sessions ON sessions.id = attempts.session
  JOIN tasks ON tasks.session = attempts.session AND tasks.id = attempts.task AND tasks.kind <> 2
  UNION ALL
  SELECT ready.tenant FROM ready {by ready_announced} WHERE announced_until > 0
) AS used GROUP BY tenant
