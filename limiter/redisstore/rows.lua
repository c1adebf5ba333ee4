-- The arithmetic of limiter.Bucket in integers below 2^53, and rows as docs/redis.md
-- lays them out. math.fmod is exact and (a - fmod(a, b)) / b is an exact division;
-- % and math.floor(a / b) are not. A script makes its functions anew on each call,
-- so there are few, and what is rarely needed is made where it is needed.

-- A bucket is { limit, tokens, period, burst, level, time, next bucket of the row }.
-- A row is its first bucket, or nil. Levels below 0 are debts.

-- a/b rounded up, for a above 0
local function ceildiv(a, b)
  local r = fmod(a, b)
  if r == 0 then return a / b end
  return (a - r) / b + 1
end

-- Reads a row's value and mends it: what lies in the future is brought to now,
-- what has been full for a second is as good as absent, and what no script can have
-- written means nothing. Returns the row and whether it has to be written for that.
-- Products are compared with what is below 2^53 itself: rounding keeps the order.
local function readrow(value)
  local first, last, dirty = nil, nil, false
  local size, layout, width, short = #value, '<c8BI4I2i5I7', 27, true
  if byte(value, 1) == 1 then layout, width, short = '<c8I6I6I6i7I7', 40, false end
  if size < 1 or byte(value, 1) > 2 or byte(value, 1) < 1 or fmod(size - 1, width) ~= 0 then return nil, true end
  for at = 2, size, width do
    local hash, tokens, period, burst, units, time = unpack(layout, value, at)
    local full, elapsed = burst * period, now - time
    if elapsed < 0 then time, elapsed, dirty = now, 0, true end
    if units > full or tokens == 0 or full == 0 or (elapsed >= 1000000 and (elapsed - 1000000) * tokens >= full - units)
      or not (short or (full + tokens < EXACT and period <= 2678400000000 and units > full + tokens - EXACT)) then
      dirty = true
    else
      local b = { hash, tokens, period, burst, units, time, false }
      if last then last[7] = b else first = b end
      last = b
    end
  end
  return first, dirty
end

-- Writes a row, in the short form if all its numbers fit, to last until its
-- slowest bucket is full. Its life is no decision, so it may be rounded.
local function writerow(key, first)
  local ends, short, b = 0, true, first
  while b do
    local tokens, period, burst, units = b[2], b[3], b[4], b[5]
    local full = burst * period
    local filled = b[6] + (full - units) / tokens
    if filled > ends then ends = filled end
    if tokens > 255 or burst > 65535 or period > 4294967295 or full > 549755813887 or units < -549755813888 then short = false end
    b = b[7]
  end
  local value
  if short and first and not first[7] then
    value = pack('<Bc8BI4I2i5I7', 2, first[1], first[2], first[3], first[4], first[5], first[6])
  else
    local parts, layout, n = { short and '\2' or '\1' }, short and '<c8BI4I2i5I7' or '<c8I6I6I6i7I7', 1
    b = first
    while b do
      n = n + 1
      parts[n] = pack(layout, b[1], b[2], b[3], b[4], b[5], b[6])
      b = b[7]
    end
    value = table.concat(parts)
  end
  local ttl = keep
  if ends > now then ttl = keep + math.ceil((ends - now) / 1000) end
  call('SET', key, value, 'PX', string.format('%.0f', ttl))
end

-- Brings a bucket that was written under other numbers to now and to the new ones:
-- whole tokens exactly, their fraction rounded down, a debt no deeper than the
-- new numbers can count. Units are those that it has at now under the old ones.
local function renumber(b, units, tokens, period, burst)
  local old, full = b[3], burst * period
  if old ~= period then
    local fraction = fmod(units, old)
    if fraction < 0 then fraction = fraction + old end
    local whole = (units - fraction) / old
    if whole >= burst then
      units = full
    elseif whole * period <= -EXACT then
      units = -EXACT
    else
      -- floor(fraction * period / old) by long multiplication in base 256, so that
      -- no value exceeds 256 * 2 * old
      local q, r = 0, 0
      for shift = 5, 0, -1 do
        local digit = fmod((period - fmod(period, 256 ^ shift)) / 256 ^ shift, 256)
        local a = r * 256 + fraction * digit
        r = fmod(a, old)
        q = q * 256 + (a - r) / old
      end
      units = whole * period + q
    end
  end
  units = math.max(math.min(units, full), full + tokens + 1 - EXACT)
  b[2], b[3], b[4], b[5], b[6] = tokens, period, burst, units, now
  return units
end
