-- Removes a consumer from a pool's group unless it still has entries pending:
-- removing it would take them off the group, and nobody would ever get them.
-- Checking and removing are one step, because a read of the consumer whose
-- connection broke may still be served by Redis.
--
-- KEYS[1]  the pool's stream
-- ARGV[1]  the group
-- ARGV[2]  the consumer
-- Result   1 if there is no such consumer now, 0 if it stays

if redis.call('EXISTS', KEYS[1]) == 0 then
  return 1
end
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])
if pending.err then
  if string.find(pending.err, 'NOGROUP', 1, true) then
    return 1
  end
  return redis.error_reply(pending.err)
end
if #pending > 0 then
  return 0
end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return 1
