-- Looks up a version of an agent that a tenant has put.
-- Inputs: ?1 tenant, ?2 name, ?3 version.
-- Result: version.
SELECT version FROM tenant_agent_versions WHERE tenant = ?1 AND name = ?2 AND version = ?3
