-- Finds callbacks of a host that may be taken.
-- Inputs: now, ?2 the host, ?3 how many.
-- Result: rows of callbacks with their host, the longest due first.
SELECT {callbacks}, {host} FROM callbacks {by callbacks_host} WHERE {host} = ?2 AND due <= {now} ORDER BY due LIMIT ?3
