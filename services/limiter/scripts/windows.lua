-- One request against any number of windows: all have room and all count it, or none does. Called by store.py.
-- A window is exact: a log of its last admissions, newest first. A large one counts per second with a running sum, so
-- that a call costs the same whatever the limit; the second that is partly out of it still counts: never above the
-- limit, at most 1/60 too strict.
-- KEYS: the windows in the order in which they refuse, then (if the request has an id) the mark of this request
-- ARGV: window_ms, seen_ms, then of each window: limit, kind (log or sum), enforced (1, or 0: it only tells)
-- Returns 0 admitted; else {place of the window that refuses or 0, ms until it can have room, bits of the full
-- windows that are not enforced}. A refused request leaves nothing behind; one seen before is not counted again.
local window, seen_ms = tonumber(ARGV[1]), ARGV[2]
local count = (#ARGV - 2) / 3
local seen = KEYS[count + 1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local second, span = tonumber(time[1]), window / 1000

-- How long until there is room, 0 when there is. Admissions from the future mean that the clock was set back: they
-- would block for as long as it jumped.
local function log_wait(key, limit)
  local edge = redis.call('LINDEX', key, limit - 1)
  if not edge or now - edge >= window then return 0 end
  if redis.call('LINDEX', key, 0) - now < 1000 then return edge + window - now end
  redis.call('DEL', key)
  return 0
end

local function sum_wait(key, limit)
  local stored = redis.call('HMGET', key, 'sum', 'first')
  local sum, first = tonumber(stored[1]) or 0, tonumber(stored[2]) or second
  if first > second + 1 or second - first > 2 * span then
    redis.call('DEL', key)
    sum, first = 0, second
  end
  while first < second - span do
    local gone = redis.call('HGET', key, first)
    if gone then
      sum = sum - gone
      redis.call('HDEL', key, first)
    end
    first = first + 1
  end
  redis.call('HSET', key, 'sum', sum, 'first', first)
  redis.call('PEXPIRE', key, window + 1000)
  if sum < limit then return 0 end
  return (first + span + 1) * 1000 - now
end

local full, bits = nil, 0
for place = 1, count do
  local limit, kind = tonumber(ARGV[3 * place]), ARGV[3 * place + 1]
  local wait
  if kind == 'log' then wait = log_wait(KEYS[place], limit) else wait = sum_wait(KEYS[place], limit) end
  if wait > 0 then
    if seen and redis.call('EXISTS', seen) == 1 then return 0 end
    if ARGV[3 * place + 2] == '1' then return {place, wait, bits} end
    full = full or {}
    full[place] = true
    bits = bits + 2 ^ (place - 1)
  end
end

if seen and not redis.call('SET', seen, '', 'NX', 'PX', seen_ms) then return 0 end
for place = 1, count do
  if not (full and full[place]) then
    local key = KEYS[place]
    if ARGV[3 * place + 1] == 'log' then
      redis.call('LPUSH', key, now)
      redis.call('LTRIM', key, 0, ARGV[3 * place] - 1)
      redis.call('PEXPIRE', key, window)
    else
      redis.call('HINCRBY', key, second, 1)
      redis.call('HINCRBY', key, 'sum', 1)
    end
  end
end
if bits > 0 then return {0, 0, bits} end
return 0
