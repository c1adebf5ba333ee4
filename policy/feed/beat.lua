-- Notes a heartbeat in the index of replicas, by Redis' own clock.
-- KEYS: index   ARGV: replica id, ms after which a replica is gone, ms an entry is kept
-- Returns the number of replicas that are not gone, and the time in µs.
local t = redis.call('TIME')
local us = tonumber(t[1]) * 1000000 + tonumber(t[2])
local ms = math.floor(us / 1000)
redis.call('ZADD', KEYS[1], string.format('%.0f', ms), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', ms - tonumber(ARGV[3])))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local live = redis.call('ZCOUNT', KEYS[1], string.format('%.0f', ms - tonumber(ARGV[2])), '+inf')
return { live, string.format('%.0f', us) }
