-- Finds an approval of a tenant.
-- Inputs: ?1 tenant, ?2 id.
-- Result: rows of approvals.
SELECT {approvals} FROM approvals
WHERE id = ?2 AND (SELECT tenant FROM sessions WHERE sessions.id = session) = ?1
