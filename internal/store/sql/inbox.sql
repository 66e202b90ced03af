-- Reads the whole inbox of a task.
-- Inputs: ?1 session, ?2 task.
-- Result: rows of inbox, oldest first.
SELECT {inbox} FROM inbox {by inbox_task} WHERE session = ?1 AND task = ?2 ORDER BY queued_at, id
