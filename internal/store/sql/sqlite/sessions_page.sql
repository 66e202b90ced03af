-- Reads a page of a tenant's sessions that have all pairs of a filter.
-- Inputs: ?1 tenant, ?2 time and ?3 id of the last one before the page, ?4 how many,
-- ?5 the filter, a JSON object.
-- Result: rows of sessions, newest first.
SELECT {sessions} FROM sessions
WHERE tenant = ?1 AND (created_at, id) < (?2, ?3) AND deleted_at IS NULL
  AND (?5 = '{}' OR NOT EXISTS (
    SELECT 1 FROM json_each(?5) AS f
    WHERE NOT EXISTS (SELECT 1 FROM json_each(metadata) AS m WHERE m.key = f.key AND m.value = f.value)))
ORDER BY created_at DESC, id DESC LIMIT ?4
