-- A bucket of a rate limit that the provider does not tell: requests queue, and are
-- let through as fast as the provider was last seen to take them. While it has refused
-- nothing, everything goes.
--
-- The queue is fair between flows, which are the sessions that requests are for, by
-- start-time fair queueing: the requests of a flow are one tag apart, and a flow of
-- which none waits begins at the tag after that of the last one let through. Who has
-- the least tag goes next; of several, that of the flow that has waited for longest.
-- Within a flow they go in the order in which they came. So one request of a flow goes
-- after one of each other flow, however many these have. While MANY flows wait, those that
-- come have no turns of their own: each belongs to a flow that it may share with others. So
-- there are never more than MANY and as many as there are of these.
--
-- As time passes, credit grows, and each request takes one. Who asks may go if there is
-- credit for all before it too; theirs is kept until they ask.
--
-- KEYS[1]  the bucket, a hash
-- KEYS[2]  a sorted set: who waits, as FLOW/TICKET. All have one score, so they lie by
--          flow, and within a flow by ticket
-- KEYS[3]  a hash: when who waits has last asked, by FLOW/TICKET
-- KEYS[4]  a hash: the flows of which some wait, each as HEAD COUNT SINCE: the tag of its
--          first, how many wait, the ticket with which that began. A flow's n-th has
--          the tag HEAD + n - 1; so those behind one who leaves move up
-- ARGV[1]  'enter', to be let through:
--   ARGV[2]  the flow
--   ARGV[3]  the ticket, 0 for one who has none
--   ARGV[4]  the flow to wait in while there are many
--   Result   ticket, another one for who was silent for too long; milliseconds to
--            wait before asking again, 0 to go; epoch; requests a thousand seconds,
--            0 if there is no limit; the time in milliseconds; 1 if it waits in the flow
--            for many from now on, which it then has to name as its own, else 0
-- ARGV[1]  'refused', by the provider because of its limit:
--   ARGV[2]  the epoch in which the request was let through
--   ARGV[3]  the time at which it was
--   ARGV[4]  milliseconds that the provider asked to be left alone
--   Result   nothing
-- ARGV[1]  'leave', to wait no longer:
--   ARGV[2]  the flow
--   ARGV[3]  the ticket
--   Result   nothing
--
-- Repeating 'enter' with a ticket keeps its place. Without one it wastes a ticket, which
-- is taken out when its owner has been silent for a while. Repeating 'refused' lowers the
-- rate once at most, because of the epoch; repeating 'leave' does nothing. Time is
-- Redis's. No more commands are used than the rights of workers have
-- (deploy/k8s/base/redis-worker.acl); without them, entering fails before it has
-- written.
--
-- Workers of releases whose queue was not fair have keys of other names. While they run
-- beside others, each kind learns by itself how fast it may go.
--
-- Fields: issued    tickets given out
--         credit    how many may go by now; has fractions
--         tag       of the last request that was let through
--         at        when credit was last brought up to date
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
local ATONCE = 200    -- of them are taken out in one go, as Redis serves nobody meanwhile
local MANY = 128      -- flows; each look goes over all that wait
local KEPT = 3600     -- seconds for which an unused bucket is kept

local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local b = {issued = 0, credit = 0, tag = 0, at = now, epoch = 0, closed = 0,
  looked = now, taken = 0, refused = 0, took = 0, counted = now, best = 0, asked = 0, denied = 0}
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  b[stored[i]] = tonumber(stored[i + 1])
end

-- Redis's clock steps back when it is set right, or when another machine takes over whose
-- clock is behind. Then it is as if no time had passed.
if now < b.at then
  local back = b.at - now
  for _, name in ipairs({'at', 'since', 'closed', 'looked', 'counted'}) do
    b[name] = b[name] and b[name] - back
  end
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
-- How many of its own flow are before a member.
local function place(flow, one)
  return redis.call('ZLEXCOUNT', KEYS[2], '[' .. flow .. '/', '(' .. one)
end
-- How many are before the one that is at a place of its flow.
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
-- Takes one out who waits no longer. Credit that was kept for it is lost, since it was
-- for a moment that is over.
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
  if gone < ATONCE then -- else the next who asks goes on
    b.looked = now
  end
end
if ARGV[1] == 'leave' then
  leave(member(ARGV[2], tonumber(ARGV[3])))
end

-- Who comes after a pause finds a little credit, but not all of the pause's.
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
