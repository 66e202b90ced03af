-- Says of ready runs how long their announcements are in force, or whether they are
-- held back.
-- Inputs, of each: announced_until, session, task, epoch.
-- Result: none.
UPDATE ready SET announced_until = a
FROM (SELECT unnest(?1::bigint[]), unnest(?2::bytea[]), unnest(?3::bytea[]), unnest(?4::bigint[])) AS marked (a, b, c, d)
WHERE session = ANY (ARRAY[b]) AND task = c AND epoch = d
