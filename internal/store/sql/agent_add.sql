-- Keeps a definition, unless there is one of that version.
-- Inputs: ?1 version, ?2 name, ?3 body.
-- Result: none.
INSERT INTO agents (version, name, body) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
