-- Declares a transaction void, so that it can't be committed any more, unless it was. It
-- waits for one of that name which is being carried out.
-- Inputs: ?1 id.
-- Result: none.
INSERT INTO batches (id, at, void) VALUES (?1, (extract(epoch FROM now()) * 1000000)::bigint, true) ON CONFLICT DO NOTHING
