-- Lists the versions that a tenant has put of an agent.
-- Inputs: ?1 tenant, ?2 name, ?3 how many.
-- Result: version, put_at, the newest first.
SELECT version, put_at FROM tenant_agent_versions WHERE tenant = ?1 AND name = ?2
ORDER BY put_at DESC, version LIMIT ?3
