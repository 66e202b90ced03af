-- +goose Up

-- A claim is stored here alone: the row of its task stays pending until the task changes again.
ALTER TABLE attempts ADD COLUMN nonce BIGINT;

-- +goose Down

-- The end of a run has closed the calls that wait for it, without a change of their rows.
UPDATE calls SET state = 4, by_outcome = true, is_error = ended.state <> 5
FROM (
  SELECT session, task, run, state FROM runs UNION
  SELECT session, id, run, state FROM tasks WHERE state >= 5
) AS ended
WHERE ended.session = calls.session AND ended.task = calls.child AND ended.run = calls.child_run AND calls.state = 3;
UPDATE tasks SET state = 3, started_at = coalesce(tasks.started_at, claim.at), nonce = claim.nonce, attach = claim.attach,
  replica = claim.replica, worker = claim.worker, claimed_at = claim.at, moved_at = claim.at
FROM attempts AS claim
WHERE claim.session = tasks.session AND claim.task = tasks.id AND claim.epoch = tasks.epoch AND tasks.state = 2;
ALTER TABLE attempts DROP COLUMN nonce;
