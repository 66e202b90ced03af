-- Reads tasks.
-- Inputs, of each: session, id.
-- Result: rows of tasks, of those that are there.
SELECT {tasks} FROM unnest(?1::bytea[], ?2::bytea[]) AS wanted (a, b) JOIN tasks ON session = a AND id = b
