-- Reads all inboxes of a session.
-- Inputs: ?1 session.
-- Result: rows of inbox, in no order.
SELECT {inbox} FROM inbox WHERE session = ?1
