-- Reads one record. In a Cluster the directory's head lies elsewhere: whether
-- an absent record means that there is none is asked for apart.
-- KEYS: record   ARGV: longest record
-- Returns string, none or bad, record.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'string' then
  return { kind, redis.call('GETRANGE', KEYS[1], 0, ARGV[1]) }
end
return { kind == 'none' and kind or 'bad', '' }
