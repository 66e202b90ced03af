-- +goose Up

-- Ready runs are offered tenant by tenant.
ALTER TABLE ready ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
UPDATE ready SET tenant = (SELECT tenant FROM sessions WHERE sessions.id = session);
CREATE INDEX ready_queue ON ready (tenant, priority, fair_tag) WHERE announced_until = 0;

-- How many runs the workers of a replica can carry.
ALTER TABLE replicas ADD COLUMN slots INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE replicas DROP COLUMN slots;
DROP INDEX ready_queue;
ALTER TABLE ready DROP COLUMN tenant;
