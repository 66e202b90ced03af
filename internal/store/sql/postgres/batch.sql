-- Gives a transaction the name by which can be found out whether it was committed. It
-- fails if it was declared void.
-- Inputs: ?1 id.
-- Result: none.
INSERT INTO batches (id, at) VALUES (?1, (extract(epoch FROM now()) * 1000000)::bigint)
