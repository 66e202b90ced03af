-- Reads a page of a tenant's sessions that have all pairs of a filter, scanning the next ones.
-- Inputs: ?1 tenant, ?2 time and ?3 id of the last one before the page, ?4 how many,
-- ?5 the filter, a JSON object, ?6 how many rows to scan.
-- Result: rows of sessions, newest first, each with whether it has the pairs and its number among
-- the scanned rows. The last scanned row is included even if it does not have them. JSONB does
-- not take NUL, so no filter matches a session with NUL in its metadata. NUL is written \u0000;
-- after another backslash that is plain text.
SELECT {sessions}, matches, nth FROM (
  SELECT {sessions}, row_number() OVER (ORDER BY created_at DESC, id DESC) AS nth,
    ?5::text = '{}' OR CASE WHEN metadata ~ '(^|[^\\])(\\\\)*\\u0000' THEN false
      ELSE metadata::jsonb @> ?5::text::jsonb END AS matches
  FROM sessions WHERE tenant = ?1 AND (created_at, id) < (?2, ?3) AND deleted_at IS NULL
  ORDER BY created_at DESC, id DESC LIMIT ?6
) AS looked WHERE matches OR nth = ?6
ORDER BY created_at DESC, id DESC LIMIT ?4
