-- Finds approvals whose callbacks may be taken, of a host that they call.
-- Inputs: now, ?2 the host, ?3 how many.
-- Result: session, task, run, URL, tries, when it was due, approval, host; the longest due first.
SELECT session, task, run, url, tries, call_due, id, {host} FROM approvals {by approvals_host}
WHERE state = 1 AND {host} = ?2 AND call_due <= {now} ORDER BY call_due LIMIT ?3
