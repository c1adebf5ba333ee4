-- Ends a comparison of all records with the console's. When some were put back,
-- gateways may hold what came back to life in between: a number is left out of
-- the changes, which has each of them drop all that it has cached.
-- KEYS: directory head, changes   ARGV: bell, servers, 1 when records were put back
-- Returns epoch or '', seq.
local head = KEYS[1]
local now = redis.call('HMGET', head, 'epoch', 'seq')
if not now[1] or not tonumber(now[2] or '') then
  return { '', '0' }
end
if ARGV[3] == '1' then
  now[2] = string.format('%.0f', redis.call('HINCRBY', head, 'seq', 2))
  if type(redis.pcall('XADD', KEYS[2], now[2] .. '-0', 'kind', 'all', 'id', 'all')) == 'table' then
    return { '', '0' } -- head and stream do not belong together: to be filled
  end
  redis.call('PUBLISH', ARGV[1], 'directory ' .. now[2])
end
redis.call('HDEL', head, 'mending')
redis.call('HSET', head, 'servers', ARGV[2])
return { now[1], now[2] }
