-- Reads a session if it belongs to the tenant and was not deleted. IS TRUE keeps the tenant
-- from using an index, so the session is always found by its id.
-- Inputs: ?1 session, ?2 tenant.
-- Result: rows of sessions.
SELECT {sessions} FROM sessions WHERE id = ?1 AND (tenant = ?2) IS TRUE AND deleted_at IS NULL
