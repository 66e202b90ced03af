-- Counts the attempts of each worker.
-- Inputs: none.
-- Result: worker, attempts.
SELECT worker, count(*) FROM attempts GROUP BY worker
