-- Adds a batch of live counts and holds the stream to its bounds: entries,
-- age and bytes. Each entry carries the bytes of all before it and itself, so
-- the bytes in the stream are known without reading it.
-- KEYS: stream   ARGV: replica, boot, batch, most entries, most bytes, ms kept
local stream, bytes = KEYS[1], tonumber(ARGV[5])
local function sum(entry)
  local fields = entry[1] and entry[1][2] or {}
  for i = 1, #fields, 2 do
    if fields[i] == 'sum' then
      return tonumber(fields[i + 1]) or 0
    end
  end
  return 0
end
local total = sum(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)) + #ARGV[3]
redis.call('XADD', stream, 'MAXLEN', ARGV[4], '*', 'replica', ARGV[1], 'boot', ARGV[2], 'batch', ARGV[3],
  'sum', string.format('%.0f', total))
local t = redis.call('TIME')
local oldest = tonumber(t[1]) * 1000 - tonumber(ARGV[6])
redis.call('XTRIM', stream, 'MINID', string.format('%.0f', oldest))
-- The first entry itself is not in the difference; it is at most one batch.
local count = redis.call('XLEN', stream)
while count > 1 and total - sum(redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)) > bytes do
  count = count - 1
  redis.call('XTRIM', stream, 'MAXLEN', count)
end
redis.call('PEXPIRE', stream, ARGV[6])
return 'OK'
