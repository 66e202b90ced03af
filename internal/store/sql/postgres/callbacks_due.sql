-- Finds callbacks that are due, by host.
-- Inputs, of each host: now or NULL, the host, how many.
-- Result: rows of callbacks with their host, grouped by host, longest due first.
SELECT found.* FROM (SELECT unnest(?1::bigint[]), unnest(?2::text[]), unnest(?3::bigint[])) AS wanted (at, name, most) CROSS JOIN LATERAL (
  SELECT {callbacks}, name FROM callbacks
  WHERE {host} = name AND due <= coalesce(at, (extract(epoch FROM now()) * 1000000)::bigint) ORDER BY due LIMIT most
) AS found
