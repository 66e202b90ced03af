-- Records the id of a transaction, which later tells whether it was committed. Fails if the id
-- was declared void.
-- Inputs: ?1 id.
-- Result: none.
INSERT INTO batches (id, at) VALUES (?1, (extract(epoch FROM now()) * 1000000)::bigint)
