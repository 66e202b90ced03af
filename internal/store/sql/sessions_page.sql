-- Reads a page of a tenant's sessions.
-- Inputs: ?1 tenant, ?2 time and ?3 id of the last one before the page, ?4 how many.
-- Result: rows of sessions, newest first.
SELECT {sessions} FROM sessions
WHERE tenant = ?1 AND (created_at, id) < (?2, ?3)
ORDER BY created_at DESC, id DESC LIMIT ?4
