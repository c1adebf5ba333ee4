-- What the scripts share that know more than charges: rows by index, the leases
-- of concurrency limits and the counters of quotas.

local format, sub, max, min = string.format, string.sub, math.max, math.min
local QUOTA_KEPT, LIFETIME_KEPT = 3600000, 34560000000 -- ms: an hour beyond the period, 400 days

-- rows by index into KEYS: false for a key of another type; absent rows are nil, so
-- what was read is noted apart. Only rows that were looked at are written.
local rows, read, dirty, held = {}, {}, {}, {}

-- reads a row, and with it mends it; returns whether it can be used
local function look(index)
  if not read[index] then
    read[index] = true
    local value = try('GET', KEYS[index])
    if type(value) == 'table' then
      rows[index] = false
    elseif value then
      held[index] = true
      rows[index], dirty[index] = readrow(value)
    end
  end
  return rows[index] ~= false
end

local function find(index, hash)
  local b = rows[index]
  while b and b[1] ~= hash do b = b[7] end
  return b or nil
end

-- the units that a bucket has at now under its own numbers
local function refilled(b)
  local gain, full = (now - b[6]) * b[2], b[4] * b[3]
  if gain >= full - b[5] then return full end
  return b[5] + gain
end

-- the level of a bucket at now and under the numbers, or that of a full one if
-- there is none. A bucket that was written under other numbers is rewritten even
-- if the request will be refused, else it would go on refilling at the old rate.
local function touch(index, b, tokens, period, burst)
  if not b then return burst * period end
  local units = refilled(b)
  if b[2] ~= tokens or b[3] ~= period or b[4] ~= burst then
    units = renumber(b, units, tokens, period, burst)
    dirty[index] = true
  end
  return units
end

-- writes the level of a bucket, which is made if b is nil
local function setlevel(index, b, hash, tokens, period, burst, units)
  if b then
    b[5], b[6] = units, now
  else
    rows[index] = { hash, tokens, period, burst, units, now, rows[index] or false }
  end
  dirty[index] = true
end

local function writerows()
  for index in pairs(read) do
    local key = KEYS[index]
    if dirty[index] or (held[index] and call('PTTL', key) == -1) then writerow(key, rows[index]) end
  end
end

-- How many leases of a concurrency limit are held; nil for a key of another type.
-- They are a sorted set of names by expiry, and what expires at now is held no more.
local function heldleases(key)
  local n = try('ZCOUNT', key, format('(%.0f', now), '+inf')
  if type(n) == 'table' then return nil end
  return n
end

-- makes or prolongs leases; the key lives as long as its last one
local function holdlease(key, lease, micros)
  call('ZADD', key, format('%.0f', now + micros), lease)
end

local function expireleases(key)
  call('ZREMRANGEBYSCORE', key, '-inf', format('%.0f', now))
  local last = call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')
  if last[2] then call('PEXPIRE', key, format('%.0f', math.ceil((last[2] - now) / 1000) + keep)) end
end

-- a quota's counter in units, nil when there is none, or false for a key that
-- holds something else
local function readquota(key)
  local value = try('GET', key)
  if type(value) == 'table' then return false end
  if not value then return nil end
  local units = tonumber(value)
  return units and units >= 0 and units < EXACT and fmod(units, 1) == 0 and units
end

-- ms for which a counter whose period ends then is kept
local function quotattl(ends)
  local ttl = LIFETIME_KEPT
  if ends > 0 then ttl = max(0, math.ceil((ends - now) / 1000)) + QUOTA_KEPT end
  return format('%.0f', ttl)
end

local function writequota(key, units, ends)
  call('SET', key, format('%.0f', units), 'PX', quotattl(ends))
end
