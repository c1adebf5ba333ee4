-- Gives a key of limiter state that has no TTL the one that it should have. What no
-- script can read means nothing to decisions, and ends in a second.
--
-- KEYS[1] the key
-- ARGV    what it is: row, leases or other; for other, its TTL in ms
-- returns a string: the time, whether it was repaired, and its TTL now

local key, what, fixed = KEYS[1], ARGV[1], 0
if call('PTTL', key) == -1 then
  fixed = 1
  if what == 'row' and look(1) then
    writerow(key, rows[1])
  elseif what == 'leases' and heldleases(key) then
    call('PEXPIRE', key, keep)
    expireleases(key)
  elseif what == 'other' and type(try('GET', key)) == 'string' then
    call('PEXPIRE', key, ARGV[2])
  else
    call('PEXPIRE', key, keep)
  end
end
return format('%.0f %d %.0f', now, fixed, call('PTTL', key))
