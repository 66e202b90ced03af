-- Sets until when ready runs are announced, or marks them as held back.
-- Inputs, of each: announced_until, session, task, epoch.
-- Result: none.
UPDATE ready SET announced_until = a
FROM (SELECT unnest(?1::bigint[]), unnest(?2::bytea[]), unnest(?3::bytea[]), unnest(?4::bigint[])) AS marked (a, b, c, d)
WHERE session = ANY (ARRAY[b]) AND task = c AND epoch = d
