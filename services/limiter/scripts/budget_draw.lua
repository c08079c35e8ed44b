-- Tokens of one request against a budget: what was counted before decides, then the request's are added. Called by
-- store.py.
-- KEYS: counter (of a window that begins with its first tokens), mark (what this request has drawn so far)
-- ARGV: tokens, budget, window_ms, mark_ms, enforced (1, or 0: it only tells)
-- Returns {0 drawn, 1 used up or 2 used up and not enforced, ms until the window ends, tokens counted}. A refused
-- request leaves nothing behind; one that asks again has drawn already.
local counter, mark = KEYS[1], KEYS[2]
local budget, window = tonumber(ARGV[2]), tonumber(ARGV[3])
local used = tonumber(redis.call('GET', counter)) or 0
if redis.call('EXISTS', mark) == 1 then return {0, 0, used} end
if used >= budget then
  if ARGV[5] == '1' then return {1, math.max(1, redis.call('PTTL', counter)), used} end
end
local counted = redis.call('INCRBY', counter, ARGV[1])
if redis.call('PTTL', counter) < 0 then redis.call('PEXPIRE', counter, window) end
redis.call('SET', mark, ARGV[1], 'PX', ARGV[4])
return {used >= budget and 2 or 0, 0, counted}
