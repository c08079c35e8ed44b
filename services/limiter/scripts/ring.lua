-- Exact sliding window: a log of the last `limit` admissions, newest first. Called by store.py.
-- KEYS: log, seen (mark of this request; left out when the request has no id)
-- ARGV: limit, window_ms, seen_ms
-- Returns 1 admitted, 0 refused. A refused request leaves nothing behind; one seen before is not counted again.
local log, seen = KEYS[1], KEYS[2]
local limit, window, seen_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local edge = redis.call('LINDEX', log, limit - 1)
if edge and now - edge < window then
  if seen and redis.call('EXISTS', seen) == 1 then return 1 end
  -- Admissions from the future mean that the clock was set back: they would block for as long as it jumped.
  if redis.call('LINDEX', log, 0) - now < 1000 then return 0 end
  redis.call('DEL', log)
end
if seen and not redis.call('SET', seen, '', 'NX', 'PX', seen_ms) then return 1 end
redis.call('LPUSH', log, now)
redis.call('LTRIM', log, 0, limit - 1)
redis.call('PEXPIRE', log, window)
return 1
