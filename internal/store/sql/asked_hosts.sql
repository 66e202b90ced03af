-- Finds the hosts of the callbacks of approvals, due or not, as callbacks_hosts does for those of
-- runs.
-- Inputs: ?1 the host to continue after, ?2 how many, at least 1.
-- Result: hosts, in order.
WITH RECURSIVE hosts (host, nth) AS (
  SELECT (
    SELECT {host} FROM approvals {by approvals_host} WHERE state = 1 AND call_due IS NOT NULL AND {host} > ?1
    ORDER BY {host} LIMIT 1
  ), 1
  UNION ALL
  SELECT (
    SELECT {host} FROM approvals {by approvals_host} WHERE state = 1 AND call_due IS NOT NULL AND {host} > hosts.host
    ORDER BY {host} LIMIT 1
  ), nth + 1 FROM hosts WHERE host IS NOT NULL AND nth < ?2
)
SELECT host FROM hosts WHERE host IS NOT NULL
