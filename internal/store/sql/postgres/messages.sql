-- Reads messages.
-- Inputs, of each: session, task, ordinal.
-- Result: rows of messages, of those that are there.
SELECT {messages} FROM unnest(?1::bytea[], ?2::bytea[], ?3::bigint[]) AS wanted (a, b, c)
JOIN messages ON session = a AND task = b AND ordinal = c
