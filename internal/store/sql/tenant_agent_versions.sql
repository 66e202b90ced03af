-- Lists the versions of an agent that a tenant has put.
-- Inputs: ?1 tenant, ?2 name, ?3 how many.
-- Result: version, put_at, newest first.
SELECT version, put_at FROM tenant_agent_versions WHERE tenant = ?1 AND name = ?2
ORDER BY put_at DESC, version LIMIT ?3
