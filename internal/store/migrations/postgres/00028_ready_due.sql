-- +goose Up

-- Tenants' queues (ready_queue) are what is read.
DROP INDEX ready_due;

-- +goose Down
CREATE INDEX ready_due ON ready (priority, fair_tag) WHERE announced_until = 0;
