-- Stores a definition, unless its version is stored already.
-- Inputs: ?1 version, ?2 name, ?3 body.
-- Result: none.
INSERT INTO agents (version, name, body) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
