-- Counts what workers have of each tenant. Commands (kind 2) count for no cap.
-- Inputs: none.
-- Result: tenant, runs, those of agents.
SELECT tenant, count(*), CAST(sum(agent) AS bigint) FROM (
  SELECT (SELECT tenant FROM sessions WHERE id = attempts.session) AS tenant,
    CASE WHEN (SELECT kind FROM tasks WHERE tasks.session = attempts.session AND id = attempts.task) = 2 THEN 0 ELSE 1 END AS agent
  FROM attempts
) AS carried GROUP BY tenant
