-- What waits for a worker, what a worker has, and since when something waits.
SELECT (SELECT count(*) FROM ready), (SELECT count(*) FROM attempts), (SELECT min(at) FROM ready)
