-- Advances the virtual time of the fair queue of sessions.
-- Inputs: ?1 the tag of a run that was announced.
-- Result: none.
UPDATE meta SET fair_now = ?1 WHERE fair_now < ?1
