-- Says which database this is.
-- Inputs: ?1 installation.
-- Result: none.
INSERT INTO meta (installation) VALUES (?1)
