-- Finds callbacks that are due, of one host.
-- Inputs: now, ?2 the host, ?3 how many.
-- Result: rows of callbacks with their host, longest due first.
SELECT {callbacks}, {host} FROM callbacks {by callbacks_host} WHERE {host} = ?2 AND due <= {now} ORDER BY due LIMIT ?3
