-- Sliding window for large limits: admissions per second of the last minute with a running sum, so that a call
-- costs the same whatever the limit. The second that is partly out of the window still counts: never above the
-- limit, at most 1/60 too strict. Called by store.py.
-- KEYS: counts, seen (mark of this request; left out when the request has no id)
-- ARGV: limit, seconds in the window, seen_ms
-- Returns 1 admitted, 0 refused.
local counts, seen = KEYS[1], KEYS[2]
local limit, span, seen_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local second = tonumber(redis.call('TIME')[1])

local stored = redis.call('HMGET', counts, 'sum', 'first')
local sum, first = tonumber(stored[1]) or 0, tonumber(stored[2]) or second
if first > second + 1 or second - first > 2 * span then
  -- Either the clock was set back, or everything is old.
  redis.call('DEL', counts)
  sum, first = 0, second
end
while first < second - span do
  local gone = redis.call('HGET', counts, first)
  if gone then
    sum = sum - gone
    redis.call('HDEL', counts, first)
  end
  first = first + 1
end
local known = seen and redis.call('EXISTS', seen) == 1
local admitted = known or sum < limit
if admitted and not known then
  redis.call('HINCRBY', counts, second, 1)
  sum = sum + 1
  if seen then redis.call('SET', seen, '', 'PX', seen_ms) end
end
redis.call('HSET', counts, 'sum', sum, 'first', first)
redis.call('PEXPIRE', counts, (span + 1) * 1000)
return admitted and 1 or 0
