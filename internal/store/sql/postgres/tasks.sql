-- Reads tasks. Each is looked up by its key, whatever the planner's estimate of the
-- table's size.
-- Inputs, of each: session, id.
-- Result: rows of tasks, those that exist.
SELECT found.* FROM (SELECT unnest(?1::bytea[]), unnest(?2::bytea[])) AS wanted (a, b) CROSS JOIN LATERAL (
  SELECT {tasks} FROM tasks {claims} WHERE tasks.session = a AND id = b OFFSET 0
) AS found
