-- Records that a tenant has put a version now.
-- Inputs: now, ?2 tenant, ?3 name, ?4 version.
-- Result: none.
INSERT INTO tenant_agent_versions (tenant, name, version, put_at) VALUES (?2, ?3, ?4, {now})
ON CONFLICT (tenant, name, version) DO UPDATE SET put_at = excluded.put_at
