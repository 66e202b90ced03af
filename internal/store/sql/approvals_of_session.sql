-- Reads a page of a session's approvals.
-- Inputs: ?1 session, ?2 id of the last one before the page, ?3 how many, ?4 the highest state wanted.
-- Result: rows of approvals, oldest first.
SELECT {approvals} FROM approvals WHERE session = ?1 AND id > ?2 AND state <= ?4 ORDER BY id LIMIT ?3
