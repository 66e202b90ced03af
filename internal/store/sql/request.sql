-- Reads the stored answer to a request.
-- Inputs: ?1 session, ?2 key.
-- Result: rows of requests.
SELECT {requests} FROM requests WHERE session = ?1 AND key = ?2
