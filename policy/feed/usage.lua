-- Adds a batch and holds the stream to its bounds: entries, age and bytes. Each
-- entry carries the bytes of all before it and itself, so the bytes in the
-- stream are known without reading it. Gateways may write here, and one that was
-- taken over may write anything: a stream whose sums make no sense, or that
-- takes no entry, begins anew, which its readers notice.
-- KEYS: stream   ARGV: replica, boot, batch, most entries, most bytes, ms kept
local stream, bytes = KEYS[1], tonumber(ARGV[5])
-- Gateways have no right to DEL.
local function clear()
  redis.call('PEXPIRE', stream, -1)
end
if redis.call('TYPE', stream).ok ~= 'stream' then
  clear()
end
-- The sum that an entry carries, nil when that is none.
local function sum(entry)
  local fields = entry[1] and entry[1][2] or {}
  for i = 1, #fields, 2 do
    if fields[i] == 'sum' and #fields[i + 1] <= 16 and string.match(fields[i + 1], '^%d+$') then
      return tonumber(fields[i + 1])
    end
  end
  return nil
end
local total = 0
local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)
if last[1] then
  local first = sum(redis.call('XRANGE', stream, '-', '+', 'COUNT', 1))
  total = sum(last)
  if not total or not first or first > total or total > 9e15 then
    clear()
    total = 0
  end
end
total = total + #ARGV[3]
local function add()
  return redis.pcall('XADD', stream, 'MAXLEN', ARGV[4], '*', 'replica', ARGV[1], 'boot', ARGV[2], 'batch', ARGV[3],
    'sum', string.format('%.0f', total))
end
local added = add()
if type(added) == 'table' and added.err and redis.call('TYPE', stream).ok == 'stream' then
  clear() -- somebody used up its numbers
  total = #ARGV[3]
  added = add()
end
if type(added) == 'table' and added.err then
  return added
end
local t = redis.call('TIME')
local oldest = tonumber(t[1]) * 1000 - tonumber(ARGV[6])
redis.call('XTRIM', stream, 'MINID', string.format('%.0f', oldest))
-- The first entry itself is not in the difference; it is at most one batch.
local count = redis.call('XLEN', stream)
while count > 1 do
  local first = sum(redis.call('XRANGE', stream, '-', '+', 'COUNT', 1))
  if first and first <= total and total - first <= bytes then
    break
  end
  count = count - 1
  redis.call('XTRIM', stream, 'MAXLEN', count)
end
redis.call('PEXPIRE', stream, ARGV[6])
return 'OK'
