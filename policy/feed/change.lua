-- Announces that records may have changed, in their order: one entry each, or
-- one for many of a kind.
-- KEYS: directory head, changes
-- ARGV: bell, longest stream, then per entry: kind of the records, id or ids, what they are
-- Returns epoch or '', seq after the last.
local head, changes = KEYS[1], KEYS[2]
if redis.call('TYPE', head).ok ~= 'hash' or not tonumber(redis.call('HGET', head, 'seq') or '') then
  -- Nothing here, or nothing that makes sense: a directory that is to be filled.
  redis.call('DEL', head, changes)
end
for i = 3, #ARGV, 3 do
  local change = redis.call('HINCRBY', head, 'seq', 1)
  local entry = { 'XADD', changes, 'MAXLEN', ARGV[2], string.format('%.0f-0', change), 'kind', ARGV[i], ARGV[i + 1], ARGV[i + 2] }
  if type(redis.pcall(unpack(entry))) == 'table' then
    -- The stream does not belong to this head: both begin anew, unnamed until
    -- the console has filled the directory again.
    redis.call('DEL', changes)
    redis.call('HDEL', head, 'epoch')
    redis.call(unpack(entry))
  end
end
local now = redis.call('HMGET', head, 'epoch', 'seq')
if #ARGV > 2 then
  redis.call('PUBLISH', ARGV[1], 'directory ' .. now[2])
end
return { now[1] or '', now[2] or '0' }
