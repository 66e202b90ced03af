-- Finds an approval of a tenant.
-- Inputs: ?1 tenant, ?2 id.
-- Result: rows of approvals.
SELECT {approvals} FROM approvals WHERE id = ?2 AND session IN (SELECT id FROM sessions WHERE tenant = ?1)
