-- Makes a version the current one.
-- Inputs: ?1 tenant, ?2 name, ?3 version.
-- Result: none.
INSERT INTO tenant_agents (tenant, name, version) VALUES (?1, ?2, ?3)
ON CONFLICT (tenant, name) DO UPDATE SET version = excluded.version
