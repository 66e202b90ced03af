-- Reads approvals. Each is looked up by its key, whatever the database takes the table's
-- size for.
-- Inputs, of each: session, id.
-- Result: rows of approvals, of those that are there.
SELECT found.* FROM (SELECT unnest(?1::bytea[]), unnest(?2::bytea[])) AS wanted (a, b) CROSS JOIN LATERAL (
  SELECT {approvals} FROM approvals WHERE session = a AND id = b OFFSET 0
) AS found
