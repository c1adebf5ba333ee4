-- Reads and changes single limits of single subjects, for people: what a decision at
-- this moment would read of them, by the same code.
--
-- KEYS    one per operation: a row, leases or a quota's counter; then, for a quota,
--         the mark of its lane
-- ARGV    per operation eight texts: what to do, index of its key, index of the mark or
--         0, limit hash (8 bytes), tokens, period, burst ('0' all: as stored), more.
--         What to do: B reads a bucket, S leases, Q a quota; A moves a bucket's level
--         between "floor ceiling" in units, C drops a bucket, D drops leases or a
--         counter, E ends the leases named in more (separated by a blank, in hex)
-- returns a string: the time, then per operation a line
--         found broken ttl tokens period burst units used kept active lease:end …

local lines = { format('%.0f', now) }

local function line(...) lines[#lines + 1] = table.concat({ ... }, ' ') end

local function whole(v) return format('%.0f', v) end

local function hex(text)
  return (string.gsub(text, '.', function(c) return format('%02x', byte(c)) end))
end

local function unhex(text)
  return (string.gsub(text, '..', function(c) return string.char(tonumber(c, 16)) end))
end

-- a bucket as of now, under the numbers given or its own
local function bucket(index, hash, tokens, period, burst)
  local usable, ttl = look(index), whole(call('PTTL', KEYS[index]))
  if not usable then
    line(0, 1, ttl, 0, 0, 0, 0, 0, 0, 0)
    return nil, nil
  end
  local b, units = find(index, hash), burst * period
  if b and burst == 0 and tokens == 0 then
    tokens, period, burst = b[2], b[3], b[4]
    units = refilled(b)
  elseif b then
    local same = b[2] == tokens and b[3] == period and b[4] == burst
    units = refilled(b)
    if not same then
      -- as a decision would, but of a copy: to look changes nothing
      units = renumber({ b[1], b[2], b[3], b[4], b[5], b[6], false }, units, tokens, period, burst)
    end
  end
  line(b and 1 or 0, 0, ttl, whole(tokens), whole(period), whole(burst), whole(units), 0, 0, 0)
  return b, units
end

local function leases(key)
  local n, ttl = heldleases(key), whole(call('PTTL', key))
  if not n then return line(0, 1, ttl, 0, 0, 0, 0, 0, 0, 0) end
  local names = {}
  if n > 0 then
    local some = call('ZRANGE', key, format('(%.0f', now), '+inf', 'BYSCORE', 'LIMIT', 0, 200, 'WITHSCORES')
    for i = 1, #some, 2 do names[#names + 1] = hex(some[i]) .. ':' .. whole(some[i + 1]) end
  end
  line(n > 0 and 1 or 0, 0, ttl, 0, 0, 0, 0, 0, 0, whole(n), spread(names))
end

local function quota(key, mark)
  local used, ttl, kept = readquota(key), whole(call('PTTL', key)), 0
  if mark > 0 then kept = call('EXISTS', KEYS[mark]) end
  if used == false then return line(0, 1, ttl, 0, 0, 0, 0, 0, kept, 0) end
  line(used and 1 or 0, 0, ttl, 0, 0, 0, 0, whole(used or 0), kept, 0)
end

local changed = {}

local function adjust(index, hash, tokens, period, burst, more)
  local b, units = bucket(index, hash, tokens, period, burst)
  if units then
    local floor, ceiling = string.match(more, '^(%S+) (%S+)$')
    local wanted = max(min(units, tonumber(ceiling)), tonumber(floor))
    if wanted ~= units then
      if b then b[2], b[3], b[4] = tokens, period, burst end
      setlevel(index, b, hash, tokens, period, burst, wanted)
      changed[index] = true
    end
  end
  bucket(index, hash, tokens, period, burst)
end

local function clear(index, hash, tokens, period, burst)
  local gone = bucket(index, hash, tokens, period, burst)
  if gone then
    local before = rows[index]
    if before == gone then
      rows[index] = gone[7] or nil
    else
      while before[7] ~= gone do before = before[7] end
      before[7] = gone[7]
    end
    changed[index] = true
  end
  bucket(index, hash, tokens, period, burst)
end

local function ended(key, more)
  leases(key)
  if type(heldleases(key)) == 'number' then
    for name in string.gmatch(more, '%S+') do call('ZREM', key, unhex(name)) end
    if call('EXISTS', key) == 1 then expireleases(key) end
  end
  leases(key)
end

for i = 1, #ARGV, 8 do
  local what, index, mark, hash, more = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3], ARGV[i + 7]
  local tokens, period, burst, key = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]), KEYS[index]
  if what == 'B' then
    bucket(index, hash, tokens, period, burst)
  elseif what == 'S' then
    leases(key)
  elseif what == 'Q' then
    quota(key, mark)
  elseif what == 'A' then
    adjust(index, hash, tokens, period, burst, more)
  elseif what == 'C' then
    clear(index, hash, tokens, period, burst)
  elseif what == 'D' then
    local read = mark > 0 and function() quota(key, mark) end or function() leases(key) end
    read()
    call('PEXPIRE', key, -1)
    read()
  elseif what == 'E' then
    ended(key, more)
  end
end
for index in pairs(changed) do writerow(KEYS[index], rows[index]) end
return table.concat(lines, '\n')
