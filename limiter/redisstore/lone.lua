-- The shortest way for what is asked most: one request of one charge, admitted, on a
-- row that holds that bucket alone, in the short form and under the same numbers,
-- or on none. It comes before all functions, because making them takes as long as
-- all of this. Whatever else it meets goes the long way, which decides the same.

local requests, lone = ARGV[1], false
if #requests == 39 then
  lone = try('GET', KEYS[1])
  if not lone or (#lone == 28 and byte(lone, 1) == 2) then
    local _, hash, tokens, period, burst, cost = unpack('<I2c8I6I6I6I6', requests, 6)
    local full, same = burst * period, tokens <= 255 and burst <= 65535 and period <= 4294967295
    local units = full
    if lone and same then
      local limit, n, p, most, level, time = unpack('<c8BI4I2i5I7', lone, 2)
      local elapsed = now - time
      local gain = elapsed * n
      same = limit == hash and n == tokens and p == period and most == burst and elapsed >= 0
        and (elapsed < 1000000 or gain - 1000000 * n < full - level)
      if gain < full - level then units = level + gain end
    end
    units = units - cost * period
    if same and full <= 549755813887 and units >= 0 then
      call('SET', KEYS[1], pack('<Bc8BI4I2i5I7', 2, hash, tokens, period, burst, units, now), 'PX',
        string.format('%.0f', keep + math.ceil((full - units) / tokens / 1000)))
      return pack('<I8Bi8I8', now, 1, units, 0)
    end
  end
end

