-- Corrects what requests were charged, and renews and ends leases.
--
-- KEYS    the distinct rows of all corrections, then the distinct keys of leases
--         and quotas, then the mark of the call's id if it has one
-- ARGV[1] the number of rows (2 bytes), a byte (1: the last key is a mark), a byte
--         of nothing, then the operations, each a byte with its kind and,
--         little-endian,
--           1 bucket   row (2, index into KEYS)  limit hash (8)  tokens (6)  period
--                      (6)  burst (6)  correction in tokens (8, signed)  time
--                      since when what comes back was out (8, 0 for none)
--           2 quota    key (2)  correction in units (8, signed)  end (8)
--           3 renew    key (2)  most leases (4)  hold in µs (6)  length of the name
--                      (1)  name
--           4 release  key (2)  length of the name (1)  name
-- returns a string: the time (8), a byte (1 done, 0 the id was seen before, 2 a key
--         holds another type: nothing was changed) and per renewal a byte (1 held)

local BUCKET, QUOTA, RENEW, RELEASE = '<I2c8I6I6I6i8I8', '<I2i8I8', '<I2I4I6B', '<I2B'
local MARK_KEPT = 3600000 -- ms

local ops = ARGV[1]
local count, marked, _, at = unpack('<I2BB', ops)
local mark = marked == 1 and KEYS[#KEYS]
if mark and call('EXISTS', mark) == 1 then return pack('<I8B', now, 0) end

local slots, quotas, renewed = {}, {}, {}

local function bucket()
  local index, hash, tokens, period, burst, change, since
  index, hash, tokens, period, burst, change, since, at = unpack(BUCKET, ops, at)
  look(index)
  local b = find(index, hash)
  if not b then
    if change >= 0 then return end
    setlevel(index, nil, hash, tokens, period, burst, burst * period)
    b = rows[index]
  end
  local units, full = refilled(b), b[4] * b[3]
  if change > 0 and since > 0 then
    local back, gain = min(change, b[4]) * b[3], (now - since) * b[2]
    if gain >= 0 and gain < back then units = min(units + back - gain, full) end
  elseif change >= 0 then
    if change * b[3] >= full - units then units = full else units = units + change * b[3] end
  else
    local least = full + b[2] + 1 - EXACT
    if -change * b[3] >= units - least then units = least else units = units + change * b[3] end
  end
  setlevel(index, b, nil, nil, nil, nil, units)
end

local function quota()
  local index, change, ends
  index, change, ends, at = unpack(QUOTA, ops, at)
  local q = quotas[index]
  if change == 0 or (change < 0 and not q.used) then return end
  q.used = max(0, min((q.used or 0) + change, EXACT - 1))
  q.dirty, q.ends = true, ends
end

local function renew()
  local index, most, micros, length
  index, most, micros, length, at = unpack(RENEW, ops, at)
  local lease, key = sub(ops, at, at + length - 1), KEYS[count + index]
  at = at + length
  local expiry = call('ZSCORE', key, lease)
  local ok = expiry and tonumber(expiry) > now or heldleases(key) < most
  if ok then
    holdlease(key, lease, micros)
    slots[index] = true
  elseif call('PTTL', key) == -1 then
    slots[index] = true
  end
  renewed[#renewed + 1] = ok and '\1' or '\0'
end

local function release()
  local index, length
  index, length, at = unpack(RELEASE, ops, at)
  call('ZREM', KEYS[count + index], sub(ops, at, at + length - 1))
  at = at + length
end

-- finds out whether all keys can be used, before anything is changed
local function usable()
  local sizes = { struct.size(BUCKET), struct.size(QUOTA), struct.size(RENEW), struct.size(RELEASE) }
  local from, size = at, #ops
  while from <= size do
    local kind, index = unpack('<BI2', ops, from)
    if kind == 1 then
      local value = try('GETRANGE', KEYS[index], 0, 0)
      if type(value) == 'table' then return false end
    elseif kind == 2 then
      if quotas[index] == nil then
        local used = readquota(KEYS[count + index])
        if used == false then return false end
        quotas[index] = { used = used, dirty = false, ends = 0 }
      end
    elseif not heldleases(KEYS[count + index]) then
      return false
    end
    from = from + 1 + sizes[kind]
    if kind > 2 then from = from + byte(ops, from - 1) end
  end
  return true
end

if not usable() then return pack('<I8B', now, 2) end
local todo, size = { bucket, quota, renew, release }, #ops
while at <= size do
  local kind = byte(ops, at)
  at = at + 1
  todo[kind]()
end
writerows()
for index, q in pairs(quotas) do
  if q.dirty then writequota(KEYS[count + index], q.used, q.ends) end
end
for index in pairs(slots) do expireleases(KEYS[count + index]) end
if mark then call('SET', mark, '1', 'PX', MARK_KEPT) end
return pack('<I8B', now, 1) .. table.concat(renewed)
