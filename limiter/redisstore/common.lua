-- What all scripts share: Redis' clock, the arithmetic of limiter.Bucket in
-- integers below 2^53, and rows as docs/redis.md lays them out. math.fmod is exact
-- and (a - fmod(a, b)) / b is an exact division; % and math.floor(a / b) are not.

-- prologue: the tests put their own clock in its place
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local keep = 1000 -- ms that a row is kept once all its buckets are full
-- end of prologue

local call, spread = redis.call, unpack
local pack, unpack, sub, byte = struct.pack, struct.unpack, string.sub, string.byte
local fmod, min, max, format = math.fmod, math.min, math.max, string.format
-- A record: limit, tokens, period, burst, level (negative: a debt), time. A row
-- whose numbers all fit is written in the short form.
local WIDE, SHORT = '<c8I6I6I6i7I7', '<c8I3I6I3i7I7'
local WIDE_SIZE, SHORT_SIZE, SHORT_MOST = 40, 34, 16777215
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

-- the deepest debt of a bucket: with it, all that is computed stays below 2^53
local function lowest(tokens, period, burst)
  return burst * period + tokens + 1 - EXACT
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

-- units of 1/old token in units of 1/period: whole tokens exactly, the fraction
-- rounded down
local function carry(units, old, period, burst)
  local fraction = fmod(units, old)
  if fraction < 0 then fraction = fraction + old end
  local whole = (units - fraction) / old
  if whole >= burst then return burst * period end
  if whole * period <= -EXACT then return -EXACT end
  return whole * period + scale(fraction, period, old)
end

-- a record that cannot have been written by a script means nothing
local function sane(tokens, period, burst, units)
  local full = burst * period
  return tokens > 0 and burst > 0 and period > 0 and period <= MAX_PERIOD
    and full + tokens < EXACT and units <= full and units >= full + tokens + 1 - EXACT
end

-- A row is a table of its buckets, in order and by limit hash, with the fields
-- value (as read, or false) and dirty (it has to be written). Hashes are 8 bytes
-- long, so that no field of another length can be mistaken for one.
local function readrow(value)
  local row = { value = value, dirty = false }
  if not value then return row end
  local size, layout, width = #value, WIDE, WIDE_SIZE
  if byte(value, 1) == 2 then layout, width = SHORT, SHORT_SIZE end
  if size < 1 or byte(value, 1) > 2 or byte(value, 1) < 1 or fmod(size - 1, width) ~= 0 then
    row.dirty = true
    return row
  end
  local n = 0
  for at = 2, size, width do
    local hash, tokens, period, burst, units, time = unpack(layout, value, at)
    if row[hash] or not sane(tokens, period, burst, units) then
      row.dirty = true
    else
      if time > now then
        time = now
        row.dirty = true
      end
      local b = { hash = hash, tokens = tokens, period = period, burst = burst, units = units, time = time, fill = false }
      if now - time >= untilfull(b) + FORGET then
        row.dirty = true
      else
        n = n + 1
        row[n] = b
        row[hash] = b
      end
    end
  end
  return row
end

-- Reads the rows that the first count keys name; false stands for a key of
-- another type, which fails its own requests only. MGET tells such a key as
-- absent, so absent ones are asked for again.
local function readrows(count)
  local rows, values = {}, count > 1 and call('MGET', spread(KEYS, 1, count))
  for i = 1, count do
    local value = values and values[i] or redis.pcall('GET', KEYS[i])
    rows[i] = type(value) ~= 'table' and readrow(value)
  end
  return rows
end

local function writerow(key, row)
  local n, longest, layout, first = #row, 0, SHORT, '\2'
  for i = 1, n do
    local b = row[i]
    if b.tokens > SHORT_MOST or b.burst > SHORT_MOST then layout, first = WIDE, '\1' end
    local left = untilfull(b) - (now - b.time)
    if left > longest then longest = left end
  end
  local parts = { first }
  for i = 1, n do
    local b = row[i]
    parts[i + 1] = pack(layout, b.hash, b.tokens, b.period, b.burst, b.units, b.time)
  end
  call('SET', key, table.concat(parts), 'PX', format('%.0f', ceildiv(longest, 1000) + keep))
end

-- writes the rows that changed, and those that would never expire
local function writerows(rows, last)
  for i = 1, last do
    local row = rows[i]
    if row and (row.dirty or (row.value and call('PTTL', KEYS[i]) == -1)) then writerow(KEYS[i], row) end
  end
end

-- the row's bucket of a limit, brought to now and to the numbers; nil when there
-- is none. A bucket that was written under other numbers is rewritten even if the
-- request will be refused, else it would go on refilling at the old rate.
local function touch(row, hash, tokens, period, burst)
  local b = row[hash]
  if not b then return nil end
  local units = refilled(b)
  if b.tokens ~= tokens or b.period ~= period or b.burst ~= burst then
    if b.period ~= period then units = carry(units, b.period, period, burst) end
    units = max(min(units, burst * period), lowest(tokens, period, burst))
    b.tokens, b.period, b.burst = tokens, period, burst
    b.units, b.time, b.fill = units, now, false
    row.dirty = true
  end
  return b, units
end

-- writes the level of a bucket, which is made if b is nil
local function setlevel(row, b, hash, tokens, period, burst, units)
  if not b then
    b = { hash = hash, tokens = tokens, period = period, burst = burst, units = 0, time = 0, fill = false }
    row[#row + 1] = b
    row[hash] = b
  end
  b.units, b.time, b.fill = units, now, false
  row.dirty = true
end

-- Leases of one concurrency limit: a sorted set of their names by expiry. What
-- expires at now is held no more.
local function heldleases(key)
  local held = redis.pcall('ZCOUNT', key, format('(%.0f', now), '+inf')
  return type(held) ~= 'table' and held
end

local function hold(key, lease, micros)
  call('ZADD', key, format('%.0f', now + micros), lease)
end

-- the key lives as long as its last lease
local function expireleases(key)
  call('ZREMRANGEBYSCORE', key, '-inf', format('%.0f', now))
  local last = call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')
  if last[2] then call('PEXPIRE', key, format('%.0f', ceildiv(last[2] - now, 1000) + keep)) end
end

local QUOTA_KEPT, LIFETIME_KEPT = 3600000, 34560000000 -- ms: an hour beyond the period, 400 days

-- a quota's counter: units, or nil when there is none, or false for a key that
-- holds something else
local function readquota(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return false end
  if not value then return nil end
  local units = tonumber(value)
  return units and units >= 0 and units < EXACT and fmod(units, 1) == 0 and units
end

-- ms for which a counter whose period ends then is kept
local function quotattl(ends)
  local ttl = LIFETIME_KEPT
  if ends > 0 then ttl = ceildiv(ends - now, 1000) + QUOTA_KEPT end
  return format('%.0f', ttl)
end
