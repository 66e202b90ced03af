-- Finds the hosts of callbacks, due or not. It steps from host to host, so its cost does not
-- depend on how many callbacks a host has.
-- Inputs: ?1 the host to continue after, ?2 how many, at least 1.
-- Result: hosts, in order.
WITH RECURSIVE hosts (host, nth) AS (
  SELECT (SELECT {host} FROM callbacks {by callbacks_host} WHERE {host} > ?1 ORDER BY {host} LIMIT 1), 1
  UNION ALL
  SELECT (
    SELECT {host} FROM callbacks {by callbacks_host} WHERE {host} > hosts.host ORDER BY {host} LIMIT 1
  ), nth + 1 FROM hosts WHERE host IS NOT NULL AND nth < ?2
)
SELECT host FROM hosts WHERE host IS NOT NULL
