-- Starts a full refill: without an epoch gateways treat what they miss as not
-- known. The number of changes goes on, so that a gateway's place stays good.
-- KEYS: directory head, changes   ARGV: bell, name of this filling
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' or not tonumber(redis.call('HGET', KEYS[1], 'seq') or '') then
  redis.call('DEL', KEYS[1], KEYS[2])
end
redis.call('HDEL', KEYS[1], 'epoch')
redis.call('HSET', KEYS[1], 'filling', ARGV[2])
redis.call('HSETNX', KEYS[1], 'seq', 0)
redis.call('PUBLISH', ARGV[1], 'directory filling')
return 'OK'
