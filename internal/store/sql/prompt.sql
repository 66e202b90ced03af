-- Reads the prompt of a run.
-- Inputs: ?1 session, ?2 task, ?3 run, ?4 the role of users.
-- Result: rows of messages, at most one.
SELECT {messages} FROM messages
WHERE session = ?1 AND task = ?2 AND run = ?3 AND role = ?4 AND news_task IS NULL
ORDER BY ordinal LIMIT 1
