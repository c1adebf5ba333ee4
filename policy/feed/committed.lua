-- Notes how far the ledger has boots, and drops from the front of the stream what it
-- has, and what nobody could read.
-- KEYS: stream, marks   ARGV: ms kept, most marks, then boot ("replica boot") and number of each
local stream, marks = KEYS[1], KEYS[2]
if redis.call('TYPE', marks).ok ~= 'hash' or redis.call('HLEN', marks) > tonumber(ARGV[2]) then
  redis.call('DEL', marks) -- those of boots that are alive are written again when these ask
end
for i = 3, #ARGV, 2 do
  redis.call('HSET', marks, ARGV[i], ARGV[i + 1])
end
redis.call('PEXPIRE', marks, ARGV[1])
if redis.call('TYPE', stream).ok ~= 'stream' then
  return 0
end
local dropped = 0
while dropped < 10000 do
  local entries = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)
  if not entries[1] then
    break
  end
  local f, fields = {}, entries[1][2]
  for i = 1, #fields, 2 do
    f[fields[i]] = fields[i + 1]
  end
  local last, first = tonumber(f.last), tonumber(f.first)
  if f.replica and f.boot and f.batch and first and last then
    local mark = tonumber(redis.call('HGET', marks, f.replica .. ' ' .. f.boot) or '0') or 0
    if mark < last then
      break
    end
  end
  redis.call('XDEL', stream, entries[1][1])
  dropped = dropped + 1
end
return dropped
