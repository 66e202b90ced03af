-- Reads how far the turns of sessions have come.
-- Inputs: none.
-- Result: session, its first and its last tag.
SELECT session, min(fair_tag), max(fair_tag) FROM ready GROUP BY session
