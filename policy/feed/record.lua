-- Puts one directory record. It is announced by change.lua, in a second step:
-- in a Cluster records and the stream of changes lie in different slots.
-- KEYS: record   ARGV: seq, TTL in ms or 0, record
-- Returns written, same or older.
local held = redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1]) or ''
if held == ARGV[3] then
  return 'same'
end
-- An older one is refused. One of the same number is written: it was signed
-- anew, or what is here was tampered with.
local heldSeq = tonumber(string.match(held, '^hgr1 %S+ %S+ (%d+) ') or '')
if heldSeq and heldSeq > tonumber(ARGV[1]) then
  return 'older'
end
if tonumber(ARGV[2]) > 0 then
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[3])
end
return 'written'
