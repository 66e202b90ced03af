-- Reads the current version of an agent.
-- Inputs: ?1 tenant, ?2 name.
-- Result: version.
SELECT version FROM tenant_agents WHERE tenant = ?1 AND name = ?2
