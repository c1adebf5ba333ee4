-- Corrects what requests were charged, and renews and ends leases, by Redis'
-- clock.
--
-- KEYS    the distinct rows of all corrections, then the distinct keys of leases
--         and quotas, then the mark of the call's id if it has one
-- ARGV[1] the number of rows (2 bytes), a byte (1: the last key is a mark), a byte
--         of nothing, then the operations, each a byte with its kind and, little-endian,
--           1 bucket   row (2, index into KEYS)  limit hash (8)  tokens (6)  period
--                      (6)  burst (6)  correction in tokens (8, signed)  last time
--                      at which it counts (8, 0 for none)
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

local rows, slots, quotas, held = readrows(count), {}, {}, {}
local broken = false
for i = 1, count do broken = broken or not rows[i] end

local function bucket()
  local index, hash, tokens, period, burst, change, before, after = unpack(BUCKET, ops, at)
  at = after
  local row = rows[index]
  if before > 0 and now > before then return end
  row.looked = true
  local b = row[hash]
  if not b then
    if change >= 0 then return end
    b = { hash = hash, tokens = tokens, period = period, burst = burst, units = burst * period, time = now, fill = false }
    row[#row + 1] = b
    row[hash] = b
  end
  local units, most = refilled(b), b.burst * b.period
  if change >= 0 then
    if change >= ceildiv(most - units, b.period) then units = most else units = units + change * b.period end
  else
    local least = lowest(b.tokens, b.period, b.burst)
    if -change * b.period >= units - least then units = least else units = units + change * b.period end
  end
  b.units, b.time, b.fill = units, now, false
  row.dirty = true
end

local function quota()
  local index, change, ends, after = unpack(QUOTA, ops, at)
  at = after
  local q = quotas[index]
  if change == 0 or (change < 0 and not q.used) then return end
  q.used = max(0, min((q.used or 0) + change, EXACT - 1))
  q.dirty, q.ends = true, ends
end

local function renew()
  local index, most, micros, length, after = unpack(RENEW, ops, at)
  local lease, key = sub(ops, after, after + length - 1), KEYS[count + index]
  at = after + length
  local expiry = call('ZSCORE', key, lease)
  local ok = expiry and tonumber(expiry) > now or heldleases(key) < most
  if ok then
    hold(key, lease, micros)
    slots[index] = true
  end
  held[#held + 1] = ok and '\1' or '\0'
end

local function release()
  local index, length, after = unpack(RELEASE, ops, at)
  call('ZREM', KEYS[count + index], sub(ops, after, after + length - 1))
  at = after + length
end

-- finds out what kinds of keys the operations need, before anything is changed
local function look()
  local sizes = { struct.size(BUCKET), struct.size(QUOTA), struct.size(RENEW), struct.size(RELEASE) }
  local from = at
  while from <= #ops do
    local kind, index = unpack('<BI2', ops, from)
    if kind == 2 and quotas[index] == nil then
      local used = readquota(KEYS[count + index])
      broken = broken or used == false
      quotas[index] = { used = used, dirty = false, ends = 0 }
    elseif kind > 2 then
      broken = broken or not heldleases(KEYS[count + index])
    end
    from = from + 1 + sizes[kind]
    if kind > 2 then from = from + byte(ops, from - 1) end
  end
end

look()
if broken then return pack('<I8B', now, 2) end
local todo = { bucket, quota, renew, release }
while at <= #ops do
  local kind = byte(ops, at)
  at = at + 1
  todo[kind]()
end
for i = 1, count do
  if not rows[i].looked then rows[i].dirty = false end
end
writerows(rows, count)
for index, q in pairs(quotas) do
  if q.dirty then call('SET', KEYS[count + index], format('%.0f', q.used), 'PX', quotattl(q.ends)) end
end
for index in pairs(slots) do expireleases(KEYS[count + index]) end
if mark then call('SET', mark, '1', 'PX', MARK_KEPT) end
return pack('<I8B', now, 1) .. table.concat(held)
