-- Counts the runs with workers, by tenant. Commands (kind 2) do not count for caps.
-- Inputs: none.
-- Result: tenant, runs, runs of agents.
SELECT tenant, count(*), CAST(sum(agent) AS bigint) FROM (
  SELECT (SELECT tenant FROM sessions WHERE id = attempts.session) AS tenant,
    CASE WHEN (SELECT kind FROM tasks WHERE tasks.session = attempts.session AND id = attempts.task) = 2 THEN 0 ELSE 1 END AS agent
  FROM attempts
) AS carried GROUP BY tenant
