-- The end of a request on a free model: frees its place and counts a success once. Called by store.py.
-- KEYS: leases, answer, day (as in free_admit)
-- ARGV: id, success (1 or 0), owed (1 when it was admitted while this store was away, so that it holds no lease),
--       floor_day, floor
-- Returns {day, successes}.
local leases, answer, day_key = KEYS[1], KEYS[2], KEYS[3]
local id, success, owed = ARGV[1], ARGV[2] == '1', ARGV[3] == '1'
local floor_day, floor = tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local today = math.floor(time[1] / 86400)

local counted = redis.call('HMGET', day_key, 'day', 'successes')
local stored = tonumber(counted[1]) == today and tonumber(counted[2]) or 0
local successes = stored
if floor_day == today and floor > successes then successes = floor end

redis.call('ZREMRANGEBYSCORE', leases, '-inf', time[1] * 1000 + math.floor(time[2] / 1000))
local held = redis.call('ZREM', leases, id) == 1
redis.call('DEL', answer)
if success and (held or owed) then successes = successes + 1 end
if successes ~= stored then
  redis.call('HSET', day_key, 'day', today, 'successes', successes)
  redis.call('PEXPIRE', day_key, 25 * 3600000)
end
return {today, successes}
