-- +goose Up

-- The ids of transactions are ordered by time already.
DROP INDEX batches_at;

-- +goose Down
CREATE INDEX batches_at ON batches (at);
