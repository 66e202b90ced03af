-- Reads the answers of the ended runs that the closed calls of a task refer to, starting at one
-- of its messages. Each is looked up by its key.
-- Inputs: ?1 session, ?2 task, ?3 message.
-- Result: rows of messages.
SELECT found.* FROM calls CROSS JOIN LATERAL (
  SELECT session, task, answer FROM {ended} WHERE session = calls.session AND task = calls.child AND run = calls.child_run OFFSET 0
) AS ended CROSS JOIN LATERAL (
  SELECT {messages} FROM messages WHERE session = ended.session AND task = ended.task AND ordinal = ended.answer OFFSET 0
) AS found WHERE calls.session = ?1 AND calls.task = ?2 AND calls.message >= ?3 AND {refers to outcome} AND ended.answer > 0
