-- Gives ready runs the tags of runs that took their turns.
-- Inputs, of each: fair_tag, session, task, epoch.
-- Result: none.
UPDATE ready SET fair_tag = a
FROM (SELECT unnest(?1::bigint[]), unnest(?2::bytea[]), unnest(?3::bytea[]), unnest(?4::bigint[])) AS traded (a, b, c, d)
WHERE session = ANY (ARRAY[b]) AND task = c AND epoch = d
