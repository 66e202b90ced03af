-- Reads a session if it is the tenant's, and was not deleted. It is found by its id, never
-- among all of the tenant's: IS TRUE keeps the tenant from an index.
-- Inputs: ?1 session, ?2 tenant.
-- Result: rows of sessions.
SELECT {sessions} FROM sessions WHERE id = ?1 AND (tenant = ?2) IS TRUE AND deleted_at IS NULL
