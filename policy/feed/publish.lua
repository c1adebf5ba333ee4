-- Writes a policy version: body and head together, or nothing.
-- It ends a canary that it reaches or overtakes.
-- KEYS: head, body of this version, bell, canary
-- ARGV: version, digest, parent, signer, signature, issued, body, epoch to use
--       if there is none, prefix of body keys, bodies to keep, version and digest
--       of a head that may be written over whatever its number ('' for none)
-- Returns published, same, went-back or conflict.
local head = KEYS[1]
local function endCanary(bodies)
  local is = redis.call('TYPE', KEYS[4]).ok
  if is == 'none' then
    return
  end
  local offered = is == 'hash' and redis.call('HGET', KEYS[4], 'version') or ''
  local number = string.match(offered, '^%d+$') and #offered <= 16 and tonumber(offered)
  if number and number > tonumber(ARGV[1]) then
    return
  end
  if number and offered ~= ARGV[1] and not string.find(' ' .. bodies .. ' ', ' ' .. offered .. ' ', 1, true) then
    redis.call('DEL', ARGV[9] .. offered)
  end
  redis.call('DEL', KEYS[4])
end
local kind = redis.call('TYPE', head).ok
if kind ~= 'hash' and kind ~= 'none' then
  redis.call('DEL', head)
end
-- What is longer than a console writes is gone over no further.
for _, field in ipairs({ 'epoch', 'bodies' }) do
  if kind == 'hash' and redis.call('HSTRLEN', head, field) > 256 then
    redis.call('HDEL', head, field)
  end
end
local held = redis.call('HMGET', head, 'version', 'digest', 'signer', 'signature', 'bodies')
local version = tonumber(ARGV[1])
local now = string.match(held[1] or '', '^%d+$') and tonumber(held[1])
local result = 'published'
if now and (now < 1 or now > 9007199254740992) then
  now = nil -- not a version that a console ever wrote
end
for _, field in ipairs({ 'version', 'digest', 'parent', 'signer', 'signature', 'issued', 'epoch' }) do
  if now and redis.call('HSTRLEN', head, field) > 256 then
    now = nil -- nor this
  end
end
if now and string.format('%.0f', now) .. ' ' .. (held[2] or '') == ARGV[11] then
  now = nil -- somebody else wrote it, as the console has found out
end
if now and now > version then
  return 'went-back'
end
if now and now == version then
  if held[2] == ARGV[2] then
    -- The same again: only what was lost or signed anew is written.
    local whole = redis.call('TYPE', KEYS[2]).ok == 'string' and
      redis.call('STRLEN', KEYS[2]) == #ARGV[7] and redis.call('GET', KEYS[2]) == ARGV[7]
    if whole and held[3] == ARGV[4] and held[4] == ARGV[5] then
      endCanary(held[5] or '')
      return 'same'
    end
    result = 'same'
  else
    return 'conflict'
  end
end

-- The versions whose bodies are here, oldest first; numbers may have gaps.
local bodies = {}
for v in string.gmatch(held[5] or '', '%d+') do
  if v ~= ARGV[1] then
    bodies[#bodies + 1] = v
  end
end
bodies[#bodies + 1] = ARGV[1]
while #bodies > tonumber(ARGV[10]) do
  redis.call('DEL', ARGV[9] .. table.remove(bodies, 1))
end
redis.call('SET', KEYS[2], ARGV[7])
redis.call('HSET', head, 'version', ARGV[1], 'digest', ARGV[2], 'parent', ARGV[3], 'signer', ARGV[4],
  'signature', ARGV[5], 'issued', ARGV[6], 'bodies', table.concat(bodies, ' '))
redis.call('HSETNX', head, 'epoch', ARGV[8])
endCanary(table.concat(bodies, ' '))
redis.call('PUBLISH', KEYS[3], 'policy ' .. ARGV[1])
return result
