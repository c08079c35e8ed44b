-- Frees the place of a request. Called by store.py.
-- KEYS: places (as in place_take)
-- ARGV: id
-- Returns 1 when it had one, else 0.
return redis.call('ZREM', KEYS[1], ARGV[1])
