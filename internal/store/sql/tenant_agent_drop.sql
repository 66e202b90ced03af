-- Deletes an agent of a tenant. Its versions stay.
-- Inputs: ?1 tenant, ?2 name.
-- Result: none.
DELETE FROM tenant_agents WHERE tenant = ?1 AND name = ?2
