-- Finds callbacks that may be taken, however many one host has among them. The host is
-- what comes before the path; no URL has less of it than "http://a", which is 8 long.
-- Inputs: now, ?2 how many of one host, ?3 how many.
-- Result: rows of callbacks: first the longest due of each host, then the next of each.
SELECT {callbacks} FROM (
  SELECT {callbacks}, row_number() OVER (
    PARTITION BY lower(substr(url, 1, {index of}(replace(replace(substr(url, 9), '?', '/'), '#', '/') || '/', '/') + 7)) ORDER BY due
  ) AS nth FROM callbacks WHERE due <= {now}
) AS of_host WHERE nth <= ?2 ORDER BY nth, due LIMIT ?3
