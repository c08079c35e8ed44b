-- One of a few places for as long as the asker keeps asking. Called by store.py.
-- KEYS: places (request id by end of its lease)
-- ARGV: id, how many there are, lease_ms
-- Returns 1 when the request has a place, else 0.
local places, id = KEYS[1], ARGV[1]
local lease = tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', places, '-inf', now)
-- Longer than any lease: the clock was set back.
redis.call('ZREMRANGEBYSCORE', places, now + lease + 1000, '+inf')
if not redis.call('ZSCORE', places, id) and redis.call('ZCARD', places) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', places, now + lease, id)
redis.call('PEXPIRE', places, lease)
return 1
