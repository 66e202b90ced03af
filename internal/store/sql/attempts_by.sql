-- Finds the attempts of a worker with a nonce that the worker has chosen. If an earlier release
-- has written an attempt, its nonce is in the row of its task.
-- Inputs: ?1 worker, ?2 nonce.
-- Result: rows of attempts.
SELECT {attempts} FROM attempts
WHERE worker = ?1 AND coalesce(nonce, (
  SELECT tasks.nonce FROM tasks WHERE tasks.session = attempts.session AND id = attempts.task AND tasks.epoch = attempts.epoch
)) = ?2
