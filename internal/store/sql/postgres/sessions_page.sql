-- Reads a page of a tenant's sessions that have all pairs of a filter.
-- Inputs: ?1 tenant, ?2 time and ?3 id of the last one before the page, ?4 how many,
-- ?5 the filter, a JSON object.
-- Result: rows of sessions, newest first. JSONB does not take NUL, so a session with
-- NUL in its metadata is found by no filter.
SELECT {sessions} FROM sessions
WHERE tenant = ?1 AND (created_at, id) < (?2, ?3) AND deleted_at IS NULL
  AND (?5::text = '{}' OR CASE WHEN position('\u0000' IN metadata) > 0 THEN false
    ELSE metadata::jsonb @> ?5::text::jsonb END)
ORDER BY created_at DESC, id DESC LIMIT ?4
