-- Declares a transaction void, so that it can no longer be committed, unless it was committed
-- already. Waits for a transaction with that id that is still running.
-- Inputs: ?1 id.
-- Result: none.
INSERT INTO batches (id, at, void) VALUES (?1, (extract(epoch FROM now()) * 1000000)::bigint, true) ON CONFLICT DO NOTHING
