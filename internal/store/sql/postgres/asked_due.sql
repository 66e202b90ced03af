-- Finds approvals whose callbacks are due, by host.
-- Inputs, of each host: now or NULL, the host, how many.
-- Result: session, task, run, URL, tries, when it was due, approval, host; grouped by
-- host, longest due first.
SELECT found.* FROM (SELECT unnest(?1::bigint[]), unnest(?2::text[]), unnest(?3::bigint[])) AS wanted (at, name, most) CROSS JOIN LATERAL (
  SELECT session, task, run, url, tries, call_due, id, name FROM approvals
  WHERE state = 1 AND {host} = name AND call_due <= coalesce(at, (extract(epoch FROM now()) * 1000000)::bigint) ORDER BY call_due LIMIT most
) AS found
