-- Finds the runs of a replica whose workers have to move commands to the background.
-- Inputs: ?1 replica.
-- Result: rows of tasks.
SELECT {tasks} FROM tasks {claims} WHERE tasks.replica = ?1 AND release_message > 0
