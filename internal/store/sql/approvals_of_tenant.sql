-- Reads a page of the open approvals of a tenant's sessions.
-- Inputs: ?1 tenant, ?2 id of the last one before the page, ?3 how many.
-- Result: rows of approvals, oldest first.
SELECT {approvals} FROM approvals
WHERE state = 1 AND id > ?2 AND (SELECT tenant FROM sessions WHERE sessions.id = session) = ?1
ORDER BY id LIMIT ?3
