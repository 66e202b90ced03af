-- Reads approvals.
-- Inputs, of each: session, id.
-- Result: rows of approvals, of those that are there.
SELECT {approvals} FROM unnest(?1::bytea[], ?2::bytea[]) AS wanted (a, b) JOIN approvals ON session = a AND id = b
