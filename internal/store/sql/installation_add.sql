-- Stores the id of the installation, unless there is one.
-- Inputs: ?1 installation.
-- Result: none.
INSERT INTO meta (installation) VALUES (?1) ON CONFLICT DO NOTHING
