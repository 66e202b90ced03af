-- Reads a page of the open approvals of a tenant's sessions, scanning the next ones of all tenants.
-- Inputs: ?1 tenant, ?2 id of the last one before the page, ?3 how many, ?4 how many rows to scan.
-- Result: rows of approvals, oldest first, each with whether it matches (is the tenant's) and its
-- number among the scanned rows. The last scanned row is included even if it does not match.
SELECT {approvals}, matches, nth FROM (
  SELECT {approvals}, row_number() OVER (ORDER BY id) AS nth,
    coalesce((SELECT tenant FROM sessions WHERE sessions.id = session) = ?1, false) AS matches
  FROM approvals WHERE state = 1 AND id > ?2 ORDER BY id LIMIT ?4
) AS looked WHERE matches OR nth = ?4
ORDER BY id LIMIT ?3
