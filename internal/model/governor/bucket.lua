-- A bucket of a rate limit that the provider does not tell: requests take a ticket
-- and are let through in the order of their tickets, as fast as the provider was
-- last seen to take them. While it has refused nothing, everything goes.
--
-- KEYS[1]  the bucket, a hash
-- KEYS[2]  a hash: when who waits has last asked, by ticket
-- KEYS[3]  a hash: the tickets not yet served whose owners wait no longer
-- ARGV[1]  'enter', to be let through:
--   ARGV[2]  the ticket, 0 for one who has none
--   Result   ticket, another one for who was silent for too long; milliseconds to
--            wait before asking again, 0 to go; epoch; requests a thousand seconds,
--            0 if there is no limit; the time in milliseconds
-- ARGV[1]  'refused', by the provider because of its limit:
--   ARGV[2]  the epoch in which the request was let through
--   ARGV[3]  the time at which it was
--   ARGV[4]  milliseconds that the provider asked to be left alone
--   Result   nothing
-- ARGV[1]  'leave', to wait no longer:
--   ARGV[2]  the ticket
--   Result   nothing
--
-- Repeating 'enter' wastes a ticket, which is passed over when its owner has been
-- silent for a while; repeating 'refused' lowers the rate once at most, because of the
-- epoch; repeating 'leave' does nothing. Time is Redis's. No more commands are used
-- than the rights of workers have (deploy/k8s/base/redis-worker.acl).
--
-- Fields: issued    tickets given out
--         served    tickets that may go by now; has fractions
--         at        when served was last brought up to date
--         looked    when those who are silent were last looked for
--         epoch     how often the rate was lowered
--         peak      requests a second when it was last lowered; absent: no limit
--         since     when that was
--         closed    until when nothing goes
--         taken, refused
--                   requests of about the last second that were let through and not
--                   refused, and those that were refused
--         took      those that were let through and not refused of about the last
--                   WINDOW seconds
--         counted   when these were counted
--         best      the highest rate at which requests were taken, not long ago
--         asked, denied
--                   of about the last MEMORY requests: all, and those refused

local LOWERED = 0.7   -- of the rate, after a refusal
local CALLS = 600     -- requests until the rate is what it was, but
local SPAN = 20       -- seconds at least until then
local LONGEST = 300   -- and at most
local FORGOTTEN = 10  -- spans after which there is no limit any more
local STORM = 5       -- refusals, within a second or so, that tell of a rate
local SHARE = 0.3     -- of requests; when more are refused, it is for the rate too
local MEMORY = 30     -- requests
local WINDOW = 3      -- seconds
local BEST = 300      -- seconds after which the best rate is forgotten, by and by
local SLOWEST = 0.1   -- requests a second
local IDLE = 5        -- seconds without a request that do not count as time
local SILENT = 15     -- seconds; who waits and asks no more is gone (see lookAgain)
local LOOKED = 5      -- seconds between looks for such
local KEPT = 3600     -- seconds for which an unused bucket is kept

local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local b = {issued = 0, served = 0, at = now, epoch = 0, closed = 0, 
  looked = now, taken = 0, refused = 0, took = 0, counted = now, best = 0, asked = 0, denied = 0}
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  b[stored[i]] = tonumber(stored[i + 1])
end

-- The rate climbs back as the third power of time: fast at first, slowly around
-- what it was, then faster and faster.
if b.peak then
  if now - b.at > IDLE then
    b.since = b.since + (now - b.at - IDLE)
  end
end
local rate
if b.peak then
  local spans = (now - b.since) / math.min(math.max(SPAN, CALLS / b.peak), LONGEST) - 1
  rate = b.peak * (1 + (1 - LOWERED) * spans * spans * spans)
  if spans > FORGOTTEN then
    rate, b.peak, b.since = nil, nil, nil
    redis.call('HDEL', KEYS[1], 'peak', 'since')
  end
end

-- What is left of the queue: tickets whose owners are gone are not waited for.
local left = {}
local function leave(ticket)
  if ticket > b.served then
    left[ticket] = true
    redis.call('HSET', KEYS[3], ticket, 1)
    redis.call('EXPIRE', KEYS[3], KEPT)
  end
end
local function forget(ticket)
  left[ticket] = nil
  redis.call('HDEL', KEYS[3], ticket)
end
if b.served < b.issued then
  local tickets = redis.call('HGETALL', KEYS[3])
  for i = 1, #tickets, 2 do
    left[tonumber(tickets[i])] = true
    if tonumber(tickets[i]) <= b.served then
      forget(tonumber(tickets[i]))
    end
  end
  if now - b.looked > LOOKED then
    b.looked = now
    local asked = redis.call('HGETALL', KEYS[2])
    for i = 1, #asked, 2 do
      if now - tonumber(asked[i + 1]) > SILENT then
        redis.call('HDEL', KEYS[2], asked[i])
        leave(tonumber(asked[i]))
      end
    end
  end
end
if ARGV[1] == 'leave' and redis.call('HDEL', KEYS[2], ARGV[2]) == 1 then
  leave(tonumber(ARGV[2]))
end

-- Who comes after a pause finds a few tickets served, but not all of the pause.
local from = math.max(b.at, b.closed)
local more = rate and now > from and rate * (now - from) or 0
while b.served < b.issued do
  local head = math.floor(b.served) + 1
  if left[head] then
    b.served = b.served + 1
    forget(head)
  elseif more > 0 then
    local step = math.min(more, 1)
    b.served, more = b.served + step, more - step
  else
    break
  end
end
if more > 0 then
  b.served = math.min(b.served + more, b.issued + math.max(1, rate / 5))
end
b.at = now
local past = b.counted - now
b.counted = now
b.taken, b.refused = b.taken * math.exp(past), b.refused * math.exp(past)
b.took = b.took * math.exp(past / WINDOW)
b.best = math.max(b.best * math.exp(past / BEST), b.took / WINDOW)

local answer = {}
if ARGV[1] == 'enter' then
  local ticket = tonumber(ARGV[2])
  local known = ticket > 0 and redis.call('HDEL', KEYS[2], ticket) == 1
  if not known or ticket > b.issued then
    b.issued = b.issued + 1
    ticket = b.issued
  end
  if not rate then
    b.served = b.issued
  end
  local wait = math.max(0, b.closed - now)
  if b.served < ticket then
    local before = ticket - b.served
    for gone in pairs(left) do
      if gone < ticket then
        before = before - 1
      end
    end
    wait = wait + before / rate
  end
  if wait > 0 then
    redis.call('HSET', KEYS[2], ticket, string.format('%.6f', now))
    redis.call('EXPIRE', KEYS[2], KEPT)
  else
    b.taken, b.took = b.taken + 1, b.took + 1
    b.asked, b.denied = b.asked * (1 - 1 / MEMORY) + 1, b.denied * (1 - 1 / MEMORY)
  end
  answer = {ticket, math.ceil(wait * 1000), b.epoch, math.floor((rate or 0) * 1000), math.floor(now * 1000)}
elseif ARGV[1] == 'refused' then
  local ago = math.min(0, tonumber(ARGV[3]) / 1000 - now)
  b.refused, b.denied = b.refused + 1, b.denied + 1
  b.taken = math.max(0, b.taken - math.exp(ago))
  b.took = math.max(0, b.took - math.exp(ago / WINDOW))
  -- Providers also refuse now and then for reasons that no slowness mends. So a few
  -- refusals make no limit where none was known, and a known one is not lowered far
  -- below what was taken, unless more is refused than taken.
  if b.denied > b.asked / 2 then
    b.best = 0
  end
  local told = b.peak or b.refused >= STORM or b.denied >= STORM and b.denied > b.asked * SHARE
  if told and tonumber(ARGV[2]) == b.epoch then
    b.peak = math.max(rate or math.max(b.taken, 1) / LOWERED, b.best / 2 / LOWERED, SLOWEST)
    b.since, b.epoch = now, b.epoch + 1
  end
  if b.refused >= STORM and b.peak then
    b.peak = math.min(b.peak, math.max(b.taken / LOWERED, SLOWEST))
  end
  b.closed = math.max(b.closed, now + tonumber(ARGV[4]) / 1000)
  b.served = math.min(b.served, b.issued)
end

local fields = {}
for name, value in pairs(b) do
  fields[#fields + 1] = name
  fields[#fields + 1] = string.format('%.6f', value)
end
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('EXPIRE', KEYS[1], KEPT)
return answer
