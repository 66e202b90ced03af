-- Reads a message of a task by its id.
-- Inputs: ?1 session, ?2 task, ?3 id.
-- Result: rows of messages.
SELECT {messages} FROM messages WHERE session = ?1 AND task = ?2 AND id = ?3
