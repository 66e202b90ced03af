-- +goose Up

-- A claim is stored here alone: the row of its task stays pending until the task changes again.
ALTER TABLE attempts ADD COLUMN nonce BIGINT;

-- +goose Down
UPDATE tasks SET state = 3, started_at = coalesce(tasks.started_at, claim.at), nonce = claim.nonce, attach = claim.attach,
  replica = claim.replica, worker = claim.worker, claimed_at = claim.at, moved_at = claim.at
FROM attempts AS claim
WHERE claim.session = tasks.session AND claim.task = tasks.id AND claim.epoch = tasks.epoch AND tasks.state = 2;
ALTER TABLE attempts DROP COLUMN nonce;
