-- Finds the attempts of a worker with a nonce that the worker has chosen.
-- Inputs: ?1 worker, ?2 nonce.
-- Result: rows of attempts.
SELECT {attempts} FROM attempts
WHERE worker = ?1 AND (
  SELECT tasks.epoch = attempts.epoch AND nonce = ?2 FROM tasks WHERE tasks.session = attempts.session AND id = attempts.task
) IS TRUE
