-- Reads all callbacks of a session.
-- Inputs: ?1 session.
-- Result: rows of callbacks, in no order.
SELECT {callbacks} FROM callbacks WHERE session = ?1
