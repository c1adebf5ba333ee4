-- Ends a full refill, if what was begun is still there: a Redis that lost its
-- data meanwhile holds only half of it, which must not pass for the whole.
-- KEYS: directory head, bell   ARGV: name of this filling, epoch
-- Returns the number of changes, or -1 when the filling was lost.
if redis.call('HGET', KEYS[1], 'filling') ~= ARGV[1] then
  return '-1'
end
redis.call('HDEL', KEYS[1], 'filling')
redis.call('HSET', KEYS[1], 'epoch', ARGV[2])
local seq = redis.call('HGET', KEYS[1], 'seq')
redis.call('PUBLISH', KEYS[2], 'directory ' .. seq)
return seq
