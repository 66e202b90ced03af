-- What waits for a worker, what a worker has, and since when something waits, for how long.
-- Inputs: now.
SELECT (SELECT count(*) FROM ready), (SELECT count(*) FROM attempts), oldest.at, {now} - oldest.at
FROM (SELECT min(at) AS at FROM ready) AS oldest
