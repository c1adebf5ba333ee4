-- Decides requests that are charges alone, each all-or-nothing: the common case.
--
-- KEYS    the distinct rows of all requests
-- ARGV[1] four bytes of nothing to this script, then the requests. A request is a
--         byte with the number of its charges and per charge
--           row (2 bytes, index into KEYS)  limit hash (8)  tokens (6)  period (6)
--           burst (6)  cost (6)
--         All numbers are little-endian.
-- returns a string: the time (8), then for each request a byte (1 admitted,
--         0 refused, 2 a row of it holds another type) and per charge  level (8,
--         signed)  wait in µs (8)

local at = 5
local rows, values, dirty, count = {}, nil, {}, #KEYS
if count > 1 then
  values = call('MGET', spread(KEYS))
else
  values = { lone }
end
for i = 1, count do
  -- MGET tells a key of another type as absent, so absent ones are asked for again
  local value = values[i] or try('GET', KEYS[i])
  values[i] = value
  if value then
    if type(value) == 'table' then
      rows[i] = false
    else
      rows[i], dirty[i] = readrow(value)
    end
  end
end

local reply, out = { pack('<I8', now) }, 1
-- of the charges of the request at hand
local places, buckets, levels, waits, hashes, periods, costs, allTokens, bursts = {}, {}, {}, {}, {}, {}, {}, {}, {}
local size = #requests
while at <= size do
  local n, admitted, broken = byte(requests, at), true, false
  at = at + 1
  for i = 1, n do
    local index, hash, tokens, period, burst, cost
    index, hash, tokens, period, burst, cost, at = unpack('<I2c8I6I6I6I6', requests, at)
    local b, full = rows[index], burst * period
    local units, wait = full, 0
    if b == false then broken = true end
    while b and b[1] ~= hash do b = b[7] end
    if b then
      units = b[5]
      local gain, most = (now - b[6]) * b[2], b[4] * b[3]
      if gain >= most - units then units = most else units = units + gain end
      if b[2] ~= tokens or b[3] ~= period or b[4] ~= burst then
        units = renumber(b, units, tokens, period, burst)
        dirty[index] = true
      end
    end
    local missing = cost * period - units
    if missing > 0 then
      admitted, wait = false, ceildiv(missing, tokens)
    end
    places[i], buckets[i], levels[i], waits[i] = index, b, units, wait
    hashes[i], allTokens[i], periods[i], bursts[i], costs[i] = hash, tokens, period, burst, cost
  end
  if admitted and not broken then
    for i = 1, n do
      local index, b, units = places[i], buckets[i], levels[i] - costs[i] * periods[i]
      levels[i] = units
      dirty[index] = true
      if b then
        b[5], b[6] = units, now
      else
        rows[index] = { hashes[i], allTokens[i], periods[i], bursts[i], units, now, rows[index] or false }
      end
    end
  end
  local status = broken and 2 or admitted and 1 or 0
  out = out + 1
  if n == 1 then
    reply[out] = broken and pack('<Bi8I8', 2, 0, 0) or pack('<Bi8I8', status, levels[1], waits[1])
  else
    reply[out] = string.char(status)
    for i = 1, n do reply[out + i] = broken and pack('<i8I8', 0, 0) or pack('<i8I8', levels[i], waits[i]) end
    out = out + n
  end
end

for i = 1, count do
  if dirty[i] or (values[i] and rows[i] ~= false and call('PTTL', KEYS[i]) == -1) then writerow(KEYS[i], rows[i]) end
end
return table.concat(reply)
