-- Decides one or several requests, each all-or-nothing, by Redis' clock.
--
-- KEYS    the distinct rows of all requests
-- ARGV[1] the requests: for each a byte with its number of charges, then per
--         charge  row (2 bytes, index into KEYS)  limit hash (8)  tokens (6)
--         period (6)  burst (6)  cost (6), little-endian
-- returns a string: the time (8), then for each request a byte (1 admitted,
--         0 refused, 2 a row of it is not a string) and per charge  level (8)
--         wait in µs (8), little-endian
--
-- The arithmetic is that of limiter.Bucket, in integers below 2^53. math.fmod is
-- exact and (a - fmod(a,b)) / b is an exact division; % and math.floor(a/b) are
-- not. Rows and records are laid out as docs/redis.md says.

-- prologue: the tests put their own clock in its place
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local keep = 1000 -- ms that a full row is kept
-- end of prologue

local call, pack, unpack, sub = redis.call, struct.pack, struct.unpack, string.sub
local fmod, min, format = math.fmod, math.min, string.format
local RECORD = '<c8I6I6I6I7I7'
local CHARGE = '<I2c8I6I6I6I6'
local FORGET = 1000000 -- µs after which a full bucket is as good as absent
local MAX_PERIOD = 2678400000000 -- µs; beyond it carry() would not be exact
local EXACT = 9007199254740992

-- a/b rounded up, or 0 when a is not above 0
local function ceildiv(a, b)
  if a <= 0 then return 0 end
  local r = fmod(a, b)
  if r == 0 then return a / b end
  return (a - r) / b + 1
end

-- µs until a bucket is full, counted from its own time; remembered until the
-- level changes
local function untilfull(b)
  local fill = b.fill
  if not fill then
    fill = ceildiv(b.burst * b.period - b.units, b.tokens)
    b.fill = fill
  end
  return fill
end

-- floor(fraction * period / old) for fraction < old <= MAX_PERIOD, by long
-- multiplication in base 256: no value exceeds 256 * 2 * old
local function scale(fraction, period, old)
  local q, r = 0, 0
  for shift = 5, 0, -1 do
    local digit = fmod((period - fmod(period, 256 ^ shift)) / 256 ^ shift, 256)
    local a = r * 256 + fraction * digit
    r = fmod(a, old)
    q = q * 256 + (a - r) / old
  end
  return q
end

-- the units that a bucket has at now, under its own numbers; its time is not
-- after now
local function refilled(b)
  local elapsed = now - b.time
  if elapsed == 0 then return b.units end
  if elapsed >= untilfull(b) then return b.burst * b.period end
  return b.units + elapsed * b.tokens
end

local function carry(units, old, period, burst)
  local fraction = fmod(units, old)
  local whole = (units - fraction) / old
  if whole >= burst then return burst * period end
  return whole * period + scale(fraction, period, old)
end

local function forgotten(b)
  return now - b.time >= untilfull(b) + FORGET
end

-- a record that cannot have been written by this script means nothing
local function sane(b)
  return b.tokens > 0 and b.burst > 0 and b.period > 0 and b.period <= MAX_PERIOD
    and b.burst * b.period + b.tokens < EXACT and b.units <= b.burst * b.period
end

-- row: value as read or false, records in order, by hash, and whether it has to
-- be written
local rows = {}

local function readrow(key)
  local value = redis.pcall('GET', key)
  local row = { value = value, list = {}, byhash = {}, dirty = false }
  if type(value) == 'table' then -- WRONGTYPE: fails its own requests, not the others
    return { broken = true }
  end
  if not value then return row end
  local size = #value
  if size < 1 or sub(value, 1, 1) ~= '\1' or fmod(size - 1, 40) ~= 0 then
    row.dirty = true
    return row
  end
  for at = 2, size, 40 do
    local hash, tokens, period, burst, units, time = unpack(RECORD, value, at)
    local b = { hash = hash, tokens = tokens, period = period, burst = burst, units = units, time = time, fill = false }
    if not sane(b) or row.byhash[b.hash] then
      row.dirty = true
    else
      if b.time > now then
        b.time = now
        row.dirty = true
      end
      if forgotten(b) then
        row.dirty = true
      else
        row.list[#row.list + 1] = b
        row.byhash[b.hash] = b
      end
    end
  end
  return row
end

local function writerow(key, row)
  local parts, longest = { '\1' }, 0
  for _, b in ipairs(row.list) do
    parts[#parts + 1] = pack(RECORD, b.hash, b.tokens, b.period, b.burst, b.units, b.time)
    local left = untilfull(b) - (now - b.time)
    if left > longest then longest = left end
  end
  call('SET', key, table.concat(parts), 'PX', format('%.0f', ceildiv(longest, 1000) + keep))
end

-- the charge's level at now; a bucket that was written under other numbers is
-- rewritten even if the request will be refused, else it would go on refilling
-- at the old rate
local function touch(c)
  local b = c.row.byhash[c.hash]
  if not b then return c.burst * c.period end
  local units = refilled(b)
  if b.tokens == c.tokens and b.period == c.period and b.burst == c.burst then return units end
  if b.period ~= c.period then units = carry(units, b.period, c.period, c.burst) end
  b.tokens, b.period, b.burst = c.tokens, c.period, c.burst
  b.units, b.time, b.fill = min(units, c.burst * c.period), now, false
  c.row.dirty = true
  return b.units
end

local function spend(c)
  local b = c.row.byhash[c.hash]
  if not b then
    b = { hash = c.hash, tokens = c.tokens, period = c.period, burst = c.burst, units = 0, time = 0, fill = false }
    c.row.list[#c.row.list + 1] = b
    c.row.byhash[c.hash] = b
  end
  c.units = c.units - c.cost * c.period
  b.units, b.time, b.fill = c.units, now, false
  c.row.dirty = true
end

for i = 1, #KEYS do rows[i] = readrow(KEYS[i]) end

local reply = { pack('<I8', now) }
local requests, at = ARGV[1], 1
while at <= #requests do
  local charges, admitted, broken, count = {}, true, false, string.byte(requests, at)
  at = at + 1
  for i = 1, count do
    local index, hash, tokens, period, burst, cost, after = unpack(CHARGE, requests, at)
    local c = {
      row = rows[index], hash = hash, tokens = tokens, period = period, burst = burst, cost = cost, units = 0, wait = 0,
    }
    at = after
    if c.row.broken then
      broken, admitted = true, false
    else
      c.units = touch(c)
      c.wait = ceildiv(c.cost * c.period - c.units, c.tokens)
      if c.wait > 0 then admitted = false end
    end
    charges[i] = c
  end
  reply[#reply + 1] = broken and '\2' or admitted and '\1' or '\0'
  for i = 1, count do
    local c = charges[i]
    if admitted then spend(c) end
    reply[#reply + 1] = pack('<I8I8', c.units, c.wait)
  end
end

for i, row in ipairs(rows) do
  if row.dirty or (row.value and call('PTTL', KEYS[i]) == -1) then writerow(KEYS[i], row) end
end
return table.concat(reply)
