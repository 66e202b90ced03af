-- Looks at some sessions, for those in which nothing has happened for long.
-- Inputs: now, ?2 for how many microseconds, ?3 the id to go on after, ?4 how many to
-- look at.
-- Result: id, whether nothing runs in it and nothing has happened in it for so long.
SELECT id, deleted_at IS NULL AND pending + running + waiting + shells = 0 AND updated_at <= {now} - ?2 FROM sessions
WHERE id > ?3 ORDER BY id LIMIT ?4
