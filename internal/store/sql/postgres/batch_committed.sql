-- Looks whether a transaction was committed, once it was tried to declare it void.
-- Inputs: ?1 id.
-- Result: whether.
SELECT NOT void FROM batches WHERE id = ?1
