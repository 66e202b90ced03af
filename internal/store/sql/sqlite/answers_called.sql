-- Reads the answers with which the runs have ended that the closed calls of a task tell of,
-- from one of its messages on.
-- Inputs: ?1 session, ?2 task, ?3 message.
-- Result: rows of messages.
SELECT {messages} FROM messages WHERE (session, task, ordinal) IN (
  SELECT session, task, answer FROM {ended} WHERE answer > 0 AND (session, task, run) IN (
    SELECT session, child, child_run FROM calls WHERE session = ?1 AND task = ?2 AND message >= ?3 AND by_outcome
  )
)
