-- Fails with a division by zero if a tenant's agents differ from the given ones.
-- Inputs: ?1 tenant, ?2 their names and versions, by name, one on each line.
-- Result: one row.
SELECT 1 / (coalesce(string_agg(name || ' ' || version, chr(10) ORDER BY name), '') = ?2)::int
FROM tenant_agents WHERE tenant = ?1
