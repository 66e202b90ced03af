-- Says of ready runs how long their announcements are in force, or whether they are
-- held back.
-- Inputs, of each: announced_until, session, task, epoch.
-- Result: none.
UPDATE ready SET announced_until = a
FROM unnest(?1::bigint[], ?2::bytea[], ?3::bytea[], ?4::bigint[]) AS marked (a, b, c, d)
WHERE session = ANY (ARRAY[b]) AND task = c AND epoch = d
