-- Reads a definition.
-- Inputs: ?1 version.
-- Result: body.
SELECT body FROM agents WHERE version = ?1
