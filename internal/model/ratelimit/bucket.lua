-- The bucket of a rate limit whose value the provider does not report. Requests queue,
-- and pass at the rate that the provider last accepted. Until the provider refuses one,
-- all requests pass at once.
--
-- The queue is fair between flows, by start-time fair queueing. A flow is the session of
-- a request. The requests of a flow have consecutive tags. A flow without waiting
-- requests starts at the tag after that of the last request that passed. The request
-- with the smallest tag is next; if several have it, that of the flow that has waited
-- longest. Within a flow, requests go in the order of their arrival. So a request of a
-- flow waits for at most one request of each other flow, however many these have.
-- While MANY flows wait, new requests get no flow of their own: each uses a shared
-- flow. So there are at most MANY flows plus the number of shared ones.
--
-- Credit grows with time, and each request consumes one. A request may pass if there is
-- also credit for all requests before it. Their credit is reserved until they ask.
--
-- KEYS[1]  the bucket, a hash
-- KEYS[2]  a sorted set of the waiting requests, as FLOW/TICKET. All have the same score,
--          so they are ordered by flow, and within a flow by ticket
-- KEYS[3]  a hash: when a waiting request last asked, by FLOW/TICKET
-- KEYS[4]  a hash of the flows with waiting requests, each as HEAD COUNT SINCE: the tag of
--          its first request, how many wait, and the ticket with which that started. The
--          n-th request of a flow has the tag HEAD + n - 1, so the requests behind one
--          that leaves move up
-- ARGV[1]  'enter', to ask for permission:
--   ARGV[2]  the flow
--   ARGV[3]  the ticket, 0 without one
--   ARGV[4]  the shared flow to use while there are many flows
--   Result   ticket, a new one after being silent for too long; milliseconds to wait
--            before asking again, 0 to pass; epoch; requests per 1,000 seconds, 0 without
--            a limit; the time in milliseconds; 1 if it now waits in the shared flow,
--            which it must then name as its own, else 0
-- ARGV[1]  'refused', by the provider because of its limit:
--   ARGV[2]  the epoch in which the request passed
--   ARGV[3]  the time at which it passed
--   ARGV[4]  the pause that the provider asked for, in milliseconds
--   Result   nothing
-- ARGV[1]  'leave', to stop waiting:
--   ARGV[2]  the flow
--   ARGV[3]  the ticket
--   Result   nothing
--
-- Retries are safe. 'enter' with a ticket keeps its place. Without a ticket a retry wastes
-- one, which is removed when it has been silent for a while. Repeated 'refused' lowers
-- the rate at most once, because of the epoch. Repeated 'leave' does nothing. The time
-- is that of Redis. The script uses only commands that workers have the rights for
-- (deploy/k8s/base/redis-worker.acl); without these rights, 'enter' fails before it
-- writes.
--
-- Workers of releases without the fair queue use keys of other names. While both kinds
-- run, each learns its own rate.
--
-- Fields: issued    tickets given out
--         credit    how many may pass now; has fractions
--         tag       of the last request that passed
--         at        when credit was last updated
--         looked    time of the last scan for silent requests
--         epoch     how often the rate was lowered
--         peak      requests per second when it was last lowered; absent: no limit
--         since     when that was
--         closed    no request passes before this time
--         taken, refused
--                   requests of about the last second that passed and were not refused,
--                   and those that were refused
--         took      requests of about the last WINDOW seconds that passed and were not
--                   refused
--         counted   when these were last updated
--         best      the highest recent rate of accepted requests
--         asked, denied
--                   of about the last MEMORY requests: all, and those refused

local LOWERED = 0.7   -- factor of the rate, after a refusal
local CALLS = 600     -- requests until the rate has recovered, but
local SPAN = 20       -- at least so many seconds
local LONGEST = 300   -- and at most so many
local FORGOTTEN = 10  -- spans after which the limit is dropped
local STORM = 5       -- refusals within about a second that indicate a rate limit
local SHARE = 0.3     -- share of refused requests above which they indicate one too
local MEMORY = 30     -- requests
local WINDOW = 3      -- seconds
local BEST = 300      -- seconds over which the best rate decays
local SLOWEST = 0.1   -- requests per second
local IDLE = 5        -- seconds without a request that do not count as time
local SILENT = 15     -- seconds after which a request that does not ask is gone (see recheckEvery)
local LOOKED = 5      -- seconds between scans for such requests
local ATONCE = 200    -- maximum removed per scan, because Redis is blocked meanwhile
local MANY = 128      -- flows; each call reads all of them
local KEPT = 3600     -- seconds for which an unused bucket is kept

local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local b = {issued = 0, credit = 0, tag = 0, at = now, epoch = 0, closed = 0,
  looked = now, taken = 0, refused = 0, took = 0, counted = now, best = 0, asked = 0, denied = 0}
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  b[stored[i]] = tonumber(stored[i + 1])
end

-- Redis's clock steps back when it is corrected, or when a replica takes over whose clock is
-- behind. Then the script behaves as if no time had passed.
if now < b.at then
  local back = b.at - now
  for _, name in ipairs({'at', 'since', 'closed', 'looked', 'counted'}) do
    b[name] = b[name] and b[name] - back
  end
end

-- The rate recovers with the third power of time: fast at first, slowly around its old
-- value, then ever faster.
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

-- The queue.
local flows, waiting = {}, 0
local lines = redis.call('HGETALL', KEYS[4])
local many = #lines / 2 >= MANY
for i = 1, #lines, 2 do
  local head, count, since = string.match(lines[i + 1], '(%d+) (%d+) (%d+)')
  flows[lines[i]] = {head = tonumber(head), count = tonumber(count), since = tonumber(since)}
  waiting = waiting + count
end
local function member(flow, ticket)
  return string.format('%s/%015.0f', flow, ticket)
end
-- The number of requests of the same flow before a member.
local function place(flow, one)
  return redis.call('ZLEXCOUNT', KEYS[2], '[' .. flow .. '/', '(' .. one)
end
-- The number of requests before the one at a place of its flow.
local function before(flow, at)
  local own, count = flows[flow], at
  for name, other in pairs(flows) do
    if name ~= flow then
      local ahead = own.head + at - other.head
      if other.since < own.since then
        ahead = ahead + 1
      end
      count = count + math.max(0, math.min(ahead, other.count))
    end
  end
  return count
end
local function keep(flow)
  local f = flows[flow]
  if f.count > 0 then
    redis.call('HSET', KEYS[4], flow, string.format('%.0f %.0f %.0f', f.head, f.count, f.since))
  else
    flows[flow] = nil
    redis.call('HDEL', KEYS[4], flow)
  end
end
-- Removes a request that no longer waits. Credit that was reserved for it is lost, because
-- the moment it was for has passed.
local function leave(one)
  local flow = string.match(one, '^(.*)/%d+$')
  local at = place(flow, one)
  redis.call('HDEL', KEYS[3], one)
  if redis.call('ZREM', KEYS[2], one) == 1 and flows[flow] then
    if before(flow, at) + 1 <= b.credit then
      b.credit = b.credit - 1
    end
    flows[flow].count, waiting = flows[flow].count - 1, waiting - 1
    keep(flow)
  end
end
if waiting > 0 and now - b.looked > LOOKED then
  local asked, gone = redis.call('HGETALL', KEYS[3]), 0
  for i = 1, #asked, 2 do
    local silent = now - tonumber(asked[i + 1])
    if silent > SILENT then
      leave(asked[i])
      gone = gone + 1
      if gone == ATONCE then
        break
      end
    elseif silent < 0 then -- the clock has stepped back
      redis.call('HSET', KEYS[3], asked[i], string.format('%.6f', now))
    end
  end
  if gone < ATONCE then -- else the next call continues
    b.looked = now
  end
end
if ARGV[1] == 'leave' then
  leave(member(ARGV[2], tonumber(ARGV[3])))
end

-- A request after a pause finds a little credit, but not that of the whole pause.
local from = math.max(b.at, b.closed)
if rate and now > from then
  b.credit = math.min(b.credit + rate * (now - from), waiting + math.max(1, rate / 5))
end
b.at = now
local past = b.counted - now
b.counted = now
b.taken, b.refused = b.taken * math.exp(past), b.refused * math.exp(past)
b.took = b.took * math.exp(past / WINDOW)
b.best = math.max(b.best * math.exp(past / BEST), b.took / WINDOW)

local answer = {}
if ARGV[1] == 'enter' then
  local flow, ticket, shares = ARGV[2], tonumber(ARGV[3]), 0
  local one = member(flow, ticket)
  local at = place(flow, one)
  local f = flows[flow]
  if ticket == 0 or not f or redis.call('HDEL', KEYS[3], one) == 0 then
    b.issued = b.issued + 1
    ticket = b.issued
    if many and not f then
      flow, shares = ARGV[4], 1
      f = flows[flow]
    end
    f = f or {head = b.tag + 1, count = 0, since = ticket}
    flows[flow] = f
    one, at = member(flow, ticket), f.count
    f.count, waiting = f.count + 1, waiting + 1
  end
  if not rate then
    b.credit = waiting
  end
  local wait = math.max(0, b.closed - now)
  local needed = math.min(before(flow, at) + 1, waiting) -- without what a lost key leaves behind
  if b.credit < needed then
    wait = wait + (needed - b.credit) / rate
  end
  if wait > 0 then
    redis.call('ZADD', KEYS[2], 0, one)
    redis.call('HSET', KEYS[3], one, string.format('%.6f', now))
    keep(flow)
    for i = 2, 4 do
      redis.call('EXPIRE', KEYS[i], KEPT)
    end
  else
    -- It goes with the tag of its flow's first: if that is another, they change places.
    b.credit, b.tag = b.credit - 1, math.max(b.tag, f.head)
    f.head, f.count = f.head + 1, f.count - 1
    redis.call('ZREM', KEYS[2], one)
    keep(flow)
    b.taken, b.took = b.taken + 1, b.took + 1
    b.asked, b.denied = b.asked * (1 - 1 / MEMORY) + 1, b.denied * (1 - 1 / MEMORY)
  end
  answer = {ticket, math.ceil(wait * 1000), b.epoch, math.floor((rate or 0) * 1000), math.floor(now * 1000), shares}
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
  b.credit = math.min(b.credit, waiting)
end

local fields = {}
for name, value in pairs(b) do
  fields[#fields + 1] = name
  fields[#fields + 1] = string.format('%.6f', value)
end
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('EXPIRE', KEYS[1], KEPT)
return answer
