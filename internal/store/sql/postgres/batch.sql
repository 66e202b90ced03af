-- Gives a transaction the name by which can be found out whether it was committed.
-- It waits for a transaction of that name which is still being carried out.
-- Inputs: ?1 id.
-- Result: none; no row is added if such a transaction was committed.
INSERT INTO batches (id, at) VALUES (?1, (extract(epoch FROM now()) * 1000000)::bigint) ON CONFLICT DO NOTHING
