-- Finds the attempts of a worker with a nonce that the worker has chosen. An earlier release leaves
-- the nonce in attempts as it was, but it writes the one in the row of the task.
-- Inputs: ?1 worker, ?2 nonce.
-- Result: rows of attempts.
SELECT {attempts} FROM attempts
WHERE worker = ?1 AND (
  SELECT {task nonce} FROM tasks {claims} WHERE tasks.session = attempts.session AND tasks.id = attempts.task AND tasks.epoch = attempts.epoch
) = ?2
