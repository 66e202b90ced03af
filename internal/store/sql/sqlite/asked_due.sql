-- Finds approvals whose callbacks are due, of one host.
-- Inputs: now, ?2 the host, ?3 how many.
-- Result: session, task, run, URL, tries, when it was due, approval, host; longest due first.
SELECT session, task, run, url, tries, call_due, id, {host} FROM approvals {by approvals_host}
WHERE state = 1 AND {host} = ?2 AND call_due <= {now} ORDER BY call_due LIMIT ?3
