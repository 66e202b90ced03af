-- Says that a worker is to take no run any more.
-- Inputs: ?1 worker.
-- Result: none.
UPDATE workers SET draining = TRUE WHERE id = ?1
