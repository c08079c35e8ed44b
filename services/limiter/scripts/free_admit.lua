-- One request on a free model: daily quota, then requests per minute, then pacing. Called by store.py.
-- KEYS: leases (request id by end of lease), answer (what this request was told), day (successes of one day),
--       minute (requests of the running one and its end), pace (time from which the next request may go)
-- ARGV: id, daily (0 = no limit), rpm (0 = no limit), gap_ms, gap_max_ms, max_wait_ms, lease_ms,
--       floor_day, floor (successes of that day the caller knows of: heals a counter that was lost)
-- Returns {code, limit, remaining, reset_s, wait_ms, again_ms, day, successes}; again_ms: the answer stays until then.
-- Codes: 0 admitted, 1 daily quota used up, 2 the rest of the quota is in flight, 3 minute used up, 4 flood.
-- A refused request leaves nothing behind; an admitted one gets the same answer when asked again.
local leases, answer, day_key, minute_key, pace_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id = ARGV[1]
local daily, rpm, gap, gap_max = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local max_wait, lease = tonumber(ARGV[6]), tonumber(ARGV[7])
local floor_day, floor = tonumber(ARGV[8]), tonumber(ARGV[9])
local MINUTE, DAY = 60000, 86400000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local today = math.floor(now / DAY)

local counted = redis.call('HMGET', day_key, 'day', 'successes')
local successes = tonumber(counted[1]) == today and tonumber(counted[2]) or 0
if floor_day == today and floor > successes then
  successes = floor
  redis.call('HSET', day_key, 'day', today, 'successes', successes)
  redis.call('PEXPIRE', day_key, 25 * 3600000)
end

local given = redis.call('GET', answer)
if given then
  local limit, remaining, reset, go_at = given:match('^(%d+) (%d+) (%d+) (%d+)$')
  return {0, tonumber(limit), tonumber(remaining), tonumber(reset), math.max(0, go_at - now), 0, today, successes}
end

if daily > 0 then
  if successes >= daily then
    return {1, 0, 0, 0, 0, (today + 1) * DAY - now, today, successes}
  end
  if successes + redis.call('ZCARD', leases) >= daily then
    -- Those whose end was never told; as a rule the end of another request has removed them.
    redis.call('ZREMRANGEBYSCORE', leases, '-inf', now)
    if successes + redis.call('ZCARD', leases) >= daily then return {2, 0, 0, 0, 0, 0, today, successes} end
  end
end

local used, ends = 0, now + MINUTE
if rpm > 0 then
  local running = redis.call('GET', minute_key)
  if running then
    local many, till = running:match('^(%d+) (%d+)$')
    -- Ending later than any minute that has begun: the clock was set back.
    if tonumber(till) > now and tonumber(till) <= ends then used, ends = tonumber(many), tonumber(till) end
  end
  if used >= rpm then return {3, 0, 0, 0, 0, ends - now, today, successes} end
end

local pace = tonumber(redis.call('GET', pace_key)) or 0
-- Further ahead than any admission can have put it: the clock was set back.
if pace > now + max_wait + gap_max then pace = 0 end
local wait = math.max(0, pace - now)
if wait > max_wait then return {4, 0, 0, 0, 0, wait - max_wait, today, successes} end

redis.call('SET', pace_key, now + wait + gap, 'PX', wait + gap)
local remaining, reset = 0, 0
if rpm > 0 then
  redis.call('SET', minute_key, string.format('%d %d', used + 1, ends), 'PX', ends - now)
  remaining = rpm - used - 1
  reset = math.max(math.floor(ends / 1000), math.floor(now / 1000) + 1)
end
redis.call('ZADD', leases, now + wait + lease, id)
redis.call('PEXPIRE', leases, max_wait + lease)
local told = string.format('%d %d %d %d', rpm, remaining, reset, now + wait)
redis.call('SET', answer, told, 'PX', wait + lease)
return {0, rpm, remaining, reset, wait, 0, today, successes}
