-- Reads a page of a tenant's sessions that have all pairs of a filter, scanning the next ones.
-- Inputs: ?1 tenant, ?2 time and ?3 id of the last one before the page, ?4 how many,
-- ?5 the filter, a JSON object, ?6 how many rows to scan.
-- Result: rows of sessions, newest first, each with whether it has the pairs and its number among
-- the scanned rows. The last scanned row is included even if it does not have them.
SELECT {sessions}, matches, nth FROM (
  SELECT {sessions}, row_number() OVER (ORDER BY created_at DESC, id DESC) AS nth,
    ?5 = '{}' OR NOT EXISTS (
      SELECT 1 FROM json_each(?5) AS f
      WHERE NOT EXISTS (SELECT 1 FROM json_each(metadata) AS m WHERE m.key = f.key AND m.value = f.value)) AS matches
  FROM sessions WHERE tenant = ?1 AND (created_at, id) < (?2, ?3) AND deleted_at IS NULL
  ORDER BY created_at DESC, id DESC LIMIT ?6
) AS looked WHERE matches OR nth = ?6
ORDER BY created_at DESC, id DESC LIMIT ?4
