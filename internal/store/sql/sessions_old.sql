-- Scans some sessions for inactive ones.
-- Inputs: now, ?2 for how many microseconds, ?3 the id to continue after, ?4 how many to
-- scan.
-- Result: id, whether the session is inactive: no run under way and no change for so long.
SELECT id, deleted_at IS NULL AND pending + running + waiting + shells = 0 AND updated_at <= {now} - ?2 FROM sessions
WHERE id > ?3 ORDER BY id LIMIT ?4
