-- Offers a version to the replicas that a record names; the head stays.
-- KEYS: head, canary, body of this version, bell
-- ARGV: version, record, tag of the record, body, prefix of body keys
-- Returns published, same or went-back.
local function number(text)
  return text and #text <= 16 and string.match(text, '^%d+$') and tonumber(text)
end
local head, canary = KEYS[1], KEYS[2]
local version = tonumber(ARGV[1])
local now, bodies
if redis.call('TYPE', head).ok == 'hash' then
  now = number(redis.call('HGET', head, 'version'))
  bodies = redis.call('HSTRLEN', head, 'bodies') <= 256 and redis.call('HGET', head, 'bodies')
end
if now and now >= version then
  return 'went-back'
end
local kind = redis.call('TYPE', canary).ok
if kind ~= 'hash' and kind ~= 'none' then
  redis.call('DEL', canary)
end
local held = redis.call('HMGET', canary, 'version', 'tag')
local other = number(held[1])
if other and other > version then
  return 'went-back'
end
local whole = redis.call('TYPE', KEYS[3]).ok == 'string' and redis.call('STRLEN', KEYS[3]) == #ARGV[4] and
  redis.call('GET', KEYS[3]) == ARGV[4]
if other == version and whole and held[2] == ARGV[3] and redis.call('HGET', canary, 'record') == ARGV[2] then
  return 'same'
end
if other and other ~= version and not string.find(' ' .. (bodies or '') .. ' ', ' ' .. held[1] .. ' ', 1, true) then
  redis.call('DEL', ARGV[5] .. held[1])
end
redis.call('SET', KEYS[3], ARGV[4])
redis.call('DEL', canary)
redis.call('HSET', canary, 'version', ARGV[1], 'record', ARGV[2], 'tag', ARGV[3])
redis.call('PUBLISH', KEYS[4], 'policy ' .. ARGV[1])
return 'published'
