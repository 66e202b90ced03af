-- Reads the last messages of a run that have a given role.
-- Inputs: ?1 session, ?2 task, ?3 run, ?4 role, ?5 the last ordinal, ?6 how many.
-- Result: rows of messages, newest first.
SELECT {messages} FROM messages
WHERE session = ?1 AND task = ?2 AND run = ?3 AND role = ?4 AND ordinal <= ?5
ORDER BY ordinal DESC LIMIT ?6
