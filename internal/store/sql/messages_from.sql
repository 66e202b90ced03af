-- Reads a task's messages starting at an ordinal.
-- Inputs: ?1 session, ?2 task, ?3 ordinal, ?4 how many.
-- Result: rows of messages, in order.
SELECT {messages} FROM messages WHERE session = ?1 AND task = ?2 AND ordinal >= ?3 ORDER BY ordinal LIMIT ?4
