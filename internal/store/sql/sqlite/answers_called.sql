-- Reads the answers of the ended runs that the closed calls of a task refer to, starting at one
-- of its messages.
-- Inputs: ?1 session, ?2 task, ?3 message.
-- Result: rows of messages.
SELECT {messages} FROM messages WHERE (session, task, ordinal) IN (
  SELECT session, task, answer FROM {ended} WHERE answer > 0 AND (session, task, run) IN (
    SELECT session, child, child_run FROM calls WHERE session = ?1 AND task = ?2 AND message >= ?3 AND {refers to outcome}
  )
)
