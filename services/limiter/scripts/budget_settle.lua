-- The tokens a request has used, in place of those that were believed; counts once. Called by store.py.
-- KEYS: counter, mark (as in budget_draw)
-- ARGV: tokens, window_ms
-- Returns {tokens counted}. When the window has ended meanwhile, only what was not counted in it falls to the next.
local counter, mark = KEYS[1], KEYS[2]
local drawn = redis.call('GETDEL', mark)
local used = tonumber(redis.call('GET', counter)) or 0
if not drawn then return {used} end
local more = ARGV[1] - drawn
if used + more < 0 then more = -used end
if more == 0 then return {used} end
local counted = redis.call('INCRBY', counter, more)
if redis.call('PTTL', counter) < 0 then redis.call('PEXPIRE', counter, ARGV[2]) end
return {counted}
