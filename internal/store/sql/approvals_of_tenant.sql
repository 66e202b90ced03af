-- Reads a page of the open approvals of a tenant's sessions, among the next ones of all tenants.
-- Inputs: ?1 tenant, ?2 id of the last one before the page, ?3 how many, ?4 at how many to look.
-- Result: rows of approvals, oldest first, with whether it is one of the tenant, and which it is
-- of those that were looked at: the last one of them is there though it is of another tenant.
SELECT {approvals}, matches, nth FROM (
  SELECT {approvals}, row_number() OVER (ORDER BY id) AS nth,
    coalesce((SELECT tenant FROM sessions WHERE sessions.id = session) = ?1, false) AS matches
  FROM approvals WHERE state = 1 AND id > ?2 ORDER BY id LIMIT ?4
) AS looked WHERE matches OR nth = ?4
ORDER BY id LIMIT ?3
