-- Reads the waits for a run.
-- Inputs: ?1 session, ?2 task, ?3 run.
-- Result: rows of waits.
SELECT {waits} FROM waits WHERE session = ?1 AND target = ?2 AND target_run = ?3
