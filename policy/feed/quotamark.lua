-- Leaves the mark of a lane whose counters have been rebuilt, if nothing was lost meanwhile.
--
-- KEYS[1] mark  KEYS[2] note of whoever rebuilds
-- ARGV    the name in the note, what the mark holds, ms for which it stays
-- returns 1, or 0 when the note is not there or another's

if redis.pcall('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('DEL', KEYS[2])
return 1
