-- Checks whether a ready run is announced.
-- Inputs: ?1 session, ?2 task, ?3 epoch.
-- Result: whether it is; no row if it is not ready under the epoch.
SELECT announced_until > 0 FROM ready WHERE session = ?1 AND task = ?2 AND epoch = ?3
