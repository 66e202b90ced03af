-- +goose Up

-- The model that a task runs with, as its name was resolved; both empty: the
-- worker's choice.
ALTER TABLE tasks ADD COLUMN model_provider TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN model_name TEXT NOT NULL DEFAULT '';

-- The agents that tenants have put: for each name the version that counts now. The
-- definitions themselves are in agents.
CREATE TABLE tenant_agents (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  PRIMARY KEY (tenant, name)
);

-- All versions that tenants have put, and when each was first put.
CREATE TABLE tenant_agent_versions (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  put_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, name, version)
);

-- +goose Down
DROP TABLE tenant_agent_versions;
DROP TABLE tenant_agents;
ALTER TABLE tasks DROP COLUMN model_name;
ALTER TABLE tasks DROP COLUMN model_provider;
