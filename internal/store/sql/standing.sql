-- Reads the state of the current run of a task of a tenant's session, if the session was not
-- deleted.
-- Inputs: ?1 session, ?2 tenant, ?3 task; NULL: the root.
-- Result: id, run, state.
SELECT id, run, {task state} FROM tasks {claims} WHERE tasks.session = ?1
AND id = (SELECT coalesce(?3, root) FROM sessions WHERE id = ?1 AND (tenant = ?2) IS TRUE AND deleted_at IS NULL)
