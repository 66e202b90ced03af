-- Lists the agents that a tenant has put.
-- Inputs: ?1 tenant.
-- Result: name, version, by name.
SELECT name, version FROM tenant_agents WHERE tenant = ?1 ORDER BY name
