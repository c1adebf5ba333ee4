-- Ends a full refill, if what was begun is still there: a Redis that lost its
-- data meanwhile holds only half of it, which must not pass for the whole.
-- KEYS: directory head   ARGV: bell, name of this filling, epoch, servers
-- Returns the number of changes, or -1 when the filling was lost.
if redis.call('HGET', KEYS[1], 'filling') ~= ARGV[2] then
  return '-1'
end
redis.call('HDEL', KEYS[1], 'filling', 'mending')
redis.call('HSET', KEYS[1], 'epoch', ARGV[3], 'servers', ARGV[4])
local seq = redis.call('HGET', KEYS[1], 'seq')
redis.call('PUBLISH', ARGV[1], 'directory ' .. seq)
return seq
