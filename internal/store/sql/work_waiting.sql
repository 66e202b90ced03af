-- Counts the waiting runs of each tenant, and how many of them the caps of their sessions let
-- run.
-- Inputs: now.
-- Result: tenant, runs, runs within the caps of sessions, and since when and how long the oldest
-- run waits whose session may run more.
SELECT tenant, CAST(sum(runs) AS bigint),
  CAST(sum(CASE WHEN room <= 0 THEN 0 WHEN runs < room THEN runs ELSE room END) AS bigint),
  coalesce(min(CASE WHEN room > 0 THEN at END), 0),
  coalesce({now} - min(CASE WHEN room > 0 THEN at END), 0)
FROM (
  SELECT tenant, runs, at, (SELECT max_running - running FROM sessions WHERE id = session) AS room
  FROM (
    SELECT tenant, session, count(*) AS runs, min(at) AS at FROM (
      SELECT tenant, session, at FROM ready
      UNION ALL
      SELECT (SELECT tenant FROM sessions WHERE id = tasks.session), tasks.session, tasks.moved_at
      FROM tasks {claims} WHERE tasks.session {unlisted sessions} AND {unlisted}
    ) AS runs GROUP BY tenant, session
  ) AS of_session
) AS waiting GROUP BY tenant
