-- Adds a batch of events and answers which entry it is, or 'full'. Batches wait here
-- for the ledger and are not made room for: when there is none, the replica keeps
-- them. Each entry carries the bytes of all before it and itself. A stream whose sums
-- make no sense, or that takes no entry, begins anew: replicas send again what the
-- ledger does not have.
-- A batch that is there already is not added again.
-- KEYS: stream   ARGV: replica, boot, first, last, batch, most bytes, ms kept, entry it had ("": none)
local stream = KEYS[1]
-- Gateways have no right to DEL.
local function clear(key)
  redis.call('PEXPIRE', key, -1)
end
if redis.call('TYPE', stream).ok ~= 'stream' then
  clear(stream)
end
if ARGV[8] ~= '' then
  local there = redis.pcall('XRANGE', stream, ARGV[8], ARGV[8])
  local fields = there[1] and there[1][2] or {}
  for i = 1, #fields, 2 do
    if fields[i] == 'batch' and fields[i + 1] == ARGV[5] then
      return ARGV[8]
    end
  end
end
-- The sum that an entry carries, nil when that is none, and the bytes of its batch.
local function sum(entry)
  local fields, s, size = entry[1] and entry[1][2] or {}, nil, 0
  for i = 1, #fields, 2 do
    local v = fields[i + 1]
    if fields[i] == 'sum' and #v <= 16 and string.match(v, '^%d+$') then
      s = tonumber(v)
    elseif fields[i] == 'batch' then
      size = #v
    end
  end
  return s, size
end
local total = 0
local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)
if newest[1] then
  total = sum(newest)
  local first, size = sum(redis.call('XRANGE', stream, '-', '+', 'COUNT', 1))
  if not total or not first or first > total or total > 9e15 then
    clear(stream)
    total = 0
  elseif total - first + size + #ARGV[5] > tonumber(ARGV[6]) then
    return 'full'
  end
end
local function add()
  return redis.pcall('XADD', stream, '*', 'replica', ARGV[1], 'boot', ARGV[2], 'first', ARGV[3], 'last', ARGV[4],
    'batch', ARGV[5], 'sum', string.format('%.0f', total + #ARGV[5]))
end
local added = add()
if type(added) == 'table' and added.err and redis.call('TYPE', stream).ok == 'stream' then
  clear(stream) -- somebody used up its numbers
  total = 0
  added = add()
end
if type(added) == 'table' and added.err then
  return added
end
redis.call('PEXPIRE', stream, ARGV[7])
return added
