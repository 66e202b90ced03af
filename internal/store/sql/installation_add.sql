-- Says which database this is, unless somebody else has.
-- Inputs: ?1 installation.
-- Result: none.
INSERT INTO meta (installation) VALUES (?1) ON CONFLICT DO NOTHING
