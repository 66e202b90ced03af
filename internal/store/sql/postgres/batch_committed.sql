-- Checks whether a transaction was committed. Runs after batch_void.
-- Inputs: ?1 id.
-- Result: whether it was committed.
SELECT NOT void FROM batches WHERE id = ?1
