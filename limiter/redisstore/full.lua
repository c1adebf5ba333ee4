-- Decides one or several requests of any kind, each all-or-nothing.
--
-- KEYS    the distinct rows of all requests, then the distinct overflow rows, then
--         the distinct keys of leases and quotas
-- ARGV[1] the numbers of rows and of overflow rows (2 bytes each), then the
--         requests. All numbers are little-endian, indexes count from 1 within
--         their part of KEYS. A request of charges alone is as in plain.lua, and so
--         is the answer to it. Any other begins with the byte 255, a byte of flags
--         (1: shadows are not to be spent) and a byte each with the numbers of
--         charges, slots and quotas. Its charges go on with
--           flags (1: shadow, 2: identifiers are bounded)  extra tokens (6)  and,
--           if they are bounded, overflow row (2)  gate's hash (8)  tokens (6)
--           period (6)  burst (6)
--         a slot is    key (2)  most leases (4)  hold in µs (6)  flags (1: shadow)
--                      length of the lease's name (1)  name
--         a quota is   key (2)  cost (7)  amount (7)  cap (7)  end in Unix µs, or 0
--                      for a lifetime (8)  flags (1: shadow, 2: bill, 4: recorded)
--                      and, if it is recorded, key of its lane's mark (2)
-- returns a string: the time (8), then for each request a byte (1 admitted,
--         0 refused, 2 a key of it holds another type) and per charge  level (8,
--         signed)  wait in µs (8)  extra tokens (6)  flags (1: overflow); per slot
--         leases held (4)  flags (1: refused); per quota  units used (8)  flags
--         (1: refused, 2: overage, 4: lost)

local requests = ARGV[1]
local count, overs, at = unpack('<I2I2', requests)
local others = count + overs -- where the keys of leases and quotas begin
local reply, out = { pack('<I8', now) }, 1
local slots, quotas, marks = {}, {}, {} -- by index into KEYS
for index = 1, count do look(index) end

local function add(text)
  out = out + 1
  reply[out] = text
end

-- what has been found out about the request at hand
local admitted, shadows, broken

local function verdict(pays, shadow)
  if pays then return end
  if shadow then shadows = false else admitted = false end
end

-- A subject that this limit does not know yet takes a token from the gate, or is
-- counted in the overflow bucket when the gate has none.
local function knock(c, index, hash, tokens, period, burst)
  if rows[c.row] == false or find(c.row, c.hash) then return end
  index = count + index
  if not look(index) then
    broken = true
    return
  end
  local gate = find(index, hash)
  local units = touch(index, gate, tokens, period, burst)
  if units >= period then
    c.gate = { index, gate, hash, tokens, period, burst, units - period }
  else
    c.row, c.over, c.extra = index, true, 0
  end
end

local function readcharge(whole)
  local c = { shadow = false, over = false, extra = 0, granted = 0 }
  c.row, c.hash, c.tokens, c.period, c.burst, c.cost, at = unpack('<I2c8I6I6I6I6', requests, at)
  if whole then
    local flags
    flags, c.extra, at = unpack('<BI6', requests, at)
    c.shadow = flags == 1 or flags == 3
    if flags >= 2 then
      local index, hash, tokens, period, burst
      index, hash, tokens, period, burst, at = unpack('<I2c8I6I6I6', requests, at)
      knock(c, index, hash, tokens, period, burst)
    end
  end
  c.units, c.wait = 0, 0
  if rows[c.row] == false then
    broken = true
    return c
  end
  c.bucket = find(c.row, c.hash)
  c.units = touch(c.row, c.bucket, c.tokens, c.period, c.burst)
  local missing = c.cost * c.period - c.units
  if missing > 0 then c.wait = ceildiv(missing, c.tokens) end
  verdict(missing <= 0, c.shadow)
  return c
end

local function spendcharge(c)
  local left = c.units - c.cost * c.period
  c.granted = min(c.extra, (left - fmod(left, c.period)) / c.period)
  c.units = left - c.granted * c.period
  setlevel(c.row, c.bucket, c.hash, c.tokens, c.period, c.burst, c.units)
  if c.gate then setlevel(spread(c.gate, 1, 7)) end
end

-- the leases behind a key: how many are held, and whether this call adds some
local function leasesof(index)
  local set = slots[index]
  if set == nil then
    local n = heldleases(KEYS[others + index])
    set = n and { held = n, dirty = false } or false
    slots[index] = set
  end
  return set
end

local function readslot()
  local s, length = { refused = false }, 0
  local index, most, flags
  index, most, s.micros, flags, length, at = unpack('<I2I4I6BB', requests, at)
  s.lease, s.key, s.set, s.shadow = sub(requests, at, at + length - 1), KEYS[others + index], leasesof(index), flags == 1
  at = at + length
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
  holdlease(s.key, s.lease, s.micros)
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

-- Whether a counter can be believed: only where the console has left its mark. A
-- counter without one may be what a settlement made after a flush.
local function marked(index)
  if marks[index] == nil then marks[index] = type(try('GET', KEYS[others + index])) == 'string' end
  return marks[index]
end

local function readcount()
  local q, index, cap, ends, flags, mark = { refused = false, overage = false, lost = false }, nil, nil, nil, nil, nil
  index, q.cost, q.amount, cap, ends, flags, at = unpack('<I2I7I7I7I8B', requests, at)
  if flags >= 4 then
    mark, at = unpack('<I2', requests, at)
    q.lost, flags = not marked(mark), flags - 4
  end
  q.counter, q.shadow, q.bill = quotaof(index), fmod(flags, 2) == 1, flags >= 2
  if q.counter then
    q.refused = q.cost > cap - q.counter.used or (q.lost and not q.bill)
    q.counter.ends = ends
    verdict(not q.refused, q.shadow)
  else
    broken = true
  end
  return q
end

local function spendcount(q)
  local c = q.counter
  c.used, c.dirty, c.known = c.used + q.cost, true, true
  q.overage = q.bill and c.used > q.amount
end

local function spend(list, how)
  for _, part in ipairs(list) do
    if shadows or not part.shadow then how(part) end
  end
end

local function decide()
  local n, slotcount, quotacount, flags = byte(requests, at), 0, 0, 0
  local whole = n == 255
  at = at + 1
  if whole then
    flags, n, slotcount, quotacount = byte(requests, at, at + 3)
    at = at + 4
  end
  local charges, places, periods = {}, {}, {}
  admitted, shadows, broken = true, true, false
  for i = 1, n do charges[i] = readcharge(whole) end
  for i = 1, slotcount do places[i] = readslot() end
  for i = 1, quotacount do periods[i] = readcount() end
  if flags == 1 then shadows = false end
  if admitted and not broken then
    spend(charges, spendcharge)
    spend(places, spendslot)
    spend(periods, spendcount)
  end
  add(string.char(broken and 2 or admitted and 1 or 0))
  for _, c in ipairs(charges) do
    if broken then c.units, c.wait = 0, 0 end
    add(pack('<i8I8', c.units, c.wait))
    if whole then add(pack('<I6B', c.granted, c.over and 1 or 0)) end
  end
  for _, s in ipairs(places) do add(pack('<I4B', s.set and s.set.held or 0, s.refused and 1 or 0)) end
  for _, q in ipairs(periods) do
    add(pack('<I8B', q.counter and q.counter.used or 0, (q.refused and 1 or 0) + (q.overage and 2 or 0) + (q.lost and 4 or 0)))
  end
end

while at <= #requests do decide() end

writerows()
for index, set in pairs(slots) do
  local key = KEYS[others + index]
  if set and (set.dirty or call('PTTL', key) == -1) then expireleases(key) end
end
for index, q in pairs(quotas) do
  local key = KEYS[others + index]
  if q and q.dirty then
    writequota(key, q.used, q.ends)
  elseif q and q.known and (q.ends == 0 or call('PTTL', key) == -1) then
    call('PEXPIRE', key, quotattl(q.ends))
  end
end
return table.concat(reply)
