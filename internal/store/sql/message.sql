-- Reads a message.
-- Inputs: ?1 session, ?2 task, ?3 ordinal.
-- Result: rows of messages.
SELECT {messages} FROM messages WHERE session = ?1 AND task = ?2 AND ordinal = ?3
