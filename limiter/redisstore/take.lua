-- Decides one or several requests, each all-or-nothing, by Redis' clock.
--
-- KEYS    the distinct rows of all requests, then the distinct overflow rows, then
--         the distinct keys of leases and quotas
-- ARGV[1] the numbers of rows and of overflow rows (2 bytes each), then the
--         requests. All numbers are little-endian, indexes count from 1 within
--         their part of KEYS. A request of charges alone is a byte with their
--         number and per charge
--           row (2 bytes)  limit hash (8)  tokens (6)  period (6)
--           burst (6)  cost (6)
--         Any other begins with the byte 255, a byte of flags (1: shadows are not
--         to be spent, 2: nothing is to be spent) and a byte each with the numbers
--         of charges, slots and quotas. Its charges go on with
--           flags (1: shadow, 2: identifiers are bounded)  extra tokens (6)  and,
--           if they are bounded, overflow row (2)  gate's hash (8)  tokens (6)
--           period (6)  burst (6)
--         a slot is    key (2)  most leases (4)  hold in µs (6)  flags (1: shadow)
--                      length of the lease's name (1)  name
--         a quota is   key (2)  cost (7)  amount (7)  cap (7)  end in Unix µs, or 0
--                      for a lifetime (8)  flags (1: shadow, 2: bill)
-- returns a string: the time (8), then for each request a byte (1 admitted,
--         0 refused, 2 a key of it holds another type) and per charge  level (8,
--         signed)  wait in µs (8)  and, unless it is of charges alone, extra tokens
--         (6)  flags (1: overflow); per slot  leases held (4)  flags (1: refused);
--         per quota  units used (8)  flags (1: refused, 2: overage)

local CHARGE, MORE, GATE = '<I2c8I6I6I6I6', '<BI6', '<I2c8I6I6I6'
local SLOT, QUOTA = '<I2I4I6BB', '<I2I7I7I7I8B'

local requests = ARGV[1]
local count, overs, at = unpack('<I2I2', requests)
local rows = readrows(count)
local others = count + overs -- where the keys of leases and quotas begin
local reply, out = { pack('<I8', now) }, 1
local slots, quotas = {}, {} -- by index into KEYS

-- The charges of the request at hand, in lists that all requests share: making
-- a table for each would cost more than the arithmetic.
local ROW, HASH, TOKENS, PERIOD, BURST, COST = {}, {}, {}, {}, {}, {}
local BUCKET, UNITS, WAIT = {}, {}, {}

-- reads one charge and brings its bucket to now; returns where the next begins,
-- the row, and whether the charge can be paid
local function readcharge(i, from)
  local index, hash, tokens, period, burst, cost, after = unpack(CHARGE, requests, from)
  local row = rows[index]
  ROW[i], HASH[i], TOKENS[i], PERIOD[i], BURST[i], COST[i] = row, hash, tokens, period, burst, cost
  return after, row
end

local function judge(i)
  local period, burst = PERIOD[i], BURST[i]
  local b, units = touch(ROW[i], HASH[i], TOKENS[i], period, burst)
  if not b then units = burst * period end
  local missing = COST[i] * period - units
  BUCKET[i], UNITS[i] = b, units
  if missing > 0 then
    WAIT[i] = ceildiv(missing, TOKENS[i])
    return false
  end
  WAIT[i] = 0
  return true
end

local function spend(i, tokens)
  local units = UNITS[i] - tokens * PERIOD[i]
  UNITS[i] = units
  setlevel(ROW[i], BUCKET[i], HASH[i], TOKENS[i], PERIOD[i], BURST[i], units)
end

local function plain(n)
  local admitted, broken = true, false
  for i = 1, n do
    local row
    at, row = readcharge(i, at)
    if not row then
      broken, UNITS[i], WAIT[i] = true, 0, 0
    elseif not judge(i) then
      admitted = false
    end
  end
  out = out + 1
  if broken then
    reply[out] = '\2'
  elseif admitted then
    reply[out] = '\1'
    for i = 1, n do spend(i, COST[i]) end
  else
    reply[out] = '\0'
  end
  for i = 1, n do reply[out + i] = pack('<i8I8', UNITS[i], WAIT[i]) end
  out = out + n
end

-- whether the request may be spent, and whether its shadows may
local admitted, shadows, broken = true, true, false

local function verdict(pays, shadow)
  if pays then return end
  if shadow then shadows = false else admitted = false end
end

local SHADOW, EXTRA, OVER, GATEROW, GATES = {}, {}, {}, {}, {}

-- an overflow row is read, and with it mended, only when it is needed
local function overflowrow(index)
  local at = count + index
  local row = rows[at]
  if row == nil then
    local value = redis.pcall('GET', KEYS[at])
    row = type(value) ~= 'table' and readrow(value)
    rows[at] = row
  end
  return row
end

-- A subject that this limit does not know yet takes a token from the gate, or is
-- counted in the overflow bucket when the gate has none.
local function knock(i, index, hash, tokens, period, burst)
  if not ROW[i] or ROW[i][HASH[i]] then return end
  local row = overflowrow(index)
  if not row then
    broken = true
    return
  end
  local b, units = touch(row, hash, tokens, period, burst)
  if not b then units = burst * period end
  if units >= period then
    GATEROW[i] = row
    GATES[i] = { b, hash, tokens, period, burst, units - period }
  else
    ROW[i], OVER[i], EXTRA[i] = row, true, 0
  end
end

local function fullcharge(i)
  local row, flags
  at, row = readcharge(i, at)
  flags, EXTRA[i], at = unpack(MORE, requests, at)
  SHADOW[i], OVER[i], GATEROW[i] = flags == 1 or flags == 3, false, false
  if flags >= 2 then
    local index, hash, tokens, period, burst
    index, hash, tokens, period, burst, at = unpack(GATE, requests, at)
    knock(i, index, hash, tokens, period, burst)
  end
  if row then
    verdict(judge(i), SHADOW[i])
  else
    broken = true
  end
end

local function spendcharge(i)
  local period = PERIOD[i]
  local left = UNITS[i] - COST[i] * period
  local extra = min(EXTRA[i], (left - fmod(left, period)) / period)
  EXTRA[i] = extra
  spend(i, COST[i] + extra)
  if GATEROW[i] then setlevel(GATEROW[i], spread(GATES[i])) end
end

-- the leases behind a key: the number held, and those that this call adds
local function leasesof(index)
  local set = slots[index]
  if set == nil then
    local held = heldleases(KEYS[others + index])
    set = held and { held = held, dirty = false }
    slots[index] = set
  end
  return set
end

local function readslot()
  local index, most, hold, flags, length, after = unpack(SLOT, requests, at)
  local s = { key = KEYS[others + index], set = leasesof(index), hold = hold, shadow = flags == 1, refused = false }
  s.lease, at = sub(requests, after, after + length - 1), after + length
  if s.set then
    s.refused = s.set.held >= most
    verdict(not s.refused, s.shadow)
  else
    broken = true
  end
  return s
end

local function spendslot(s)
  local expiry = call('ZSCORE', s.key, s.lease)
  if not expiry or tonumber(expiry) <= now then s.set.held = s.set.held + 1 end
  hold(s.key, s.lease, s.hold)
  s.set.dirty = true
end

local function quotaof(index)
  local q = quotas[index]
  if q == nil then
    local used = readquota(KEYS[others + index])
    q = used ~= false and { used = used or 0, known = used ~= nil, dirty = false, ends = 0 }
    quotas[index] = q
  end
  return q
end

local function readperiod()
  local index, cost, amount, cap, ends, flags, after = unpack(QUOTA, requests, at)
  at = after
  local q = { counter = quotaof(index), cost = cost, amount = amount, shadow = fmod(flags, 2) == 1, bill = flags >= 2 }
  if q.counter then
    q.refused = cost > cap - q.counter.used
    q.counter.ends = ends
    verdict(not q.refused, q.shadow)
  else
    broken = true
  end
  return q
end

local function spendquota(q)
  local c = q.counter
  c.used, c.dirty, c.known = c.used + q.cost, true, true
  q.overage = q.bill and c.used > q.amount
end

local function spendall(n, places, periods)
  for i = 1, n do
    if shadows or not SHADOW[i] then spendcharge(i) else EXTRA[i] = 0 end
  end
  for _, s in ipairs(places) do
    if shadows or not s.shadow then spendslot(s) end
  end
  for _, q in ipairs(periods) do
    if shadows or not q.shadow then spendquota(q) end
  end
end

local function add(text)
  out = out + 1
  reply[out] = text
end

local function full()
  local flags, n, slotcount, quotacount = byte(requests, at, at + 3)
  local places, periods = {}, {}
  at = at + 4
  admitted, shadows, broken = true, true, false
  for i = 1, n do fullcharge(i) end
  for i = 1, slotcount do places[i] = readslot() end
  for i = 1, quotacount do periods[i] = readperiod() end
  if flags == 1 or flags == 3 then shadows = false end
  if admitted and not broken and flags < 2 then
    spendall(n, places, periods)
  else
    for i = 1, n do EXTRA[i] = 0 end
  end
  add(broken and '\2' or admitted and '\1' or '\0')
  for i = 1, n do
    if broken then UNITS[i], WAIT[i] = 0, 0 end
    add(pack('<i8I8I6B', UNITS[i], WAIT[i], EXTRA[i], OVER[i] and 1 or 0))
  end
  for _, s in ipairs(places) do add(pack('<I4B', s.set and s.set.held or 0, s.refused and 1 or 0)) end
  for _, q in ipairs(periods) do
    add(pack('<I8B', q.counter and q.counter.used or 0, (q.refused and 1 or 0) + (q.overage and 2 or 0)))
  end
end

while at <= #requests do
  local n = byte(requests, at)
  at = at + 1
  if n == 255 then full() else plain(n) end
end

writerows(rows, others)
for index, set in pairs(slots) do
  if set and set.dirty then expireleases(KEYS[others + index]) end
end
for index, q in pairs(quotas) do
  local key = KEYS[others + index]
  if q and q.dirty then
    call('SET', key, format('%.0f', q.used), 'PX', quotattl(q.ends))
  elseif q and q.known and (q.ends == 0 or call('PTTL', key) == -1) then
    call('PEXPIRE', key, quotattl(q.ends))
  end
end
return table.concat(reply)
