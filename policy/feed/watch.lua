-- Reads head, stamp and canary at one moment, whatever somebody wrote there: nothing
-- larger than a console writes leaves Redis.
-- KEYS: policy head, stamp, canary   ARGV: tag of the canary's record that is known
-- Returns none, head or bad; then version, digest, parent, signer, signature,
-- issued, epoch; then the stamp; then the canary's tag and, unless it is the
-- known one, record. '' stands for what is absent.
local answer = { 'none', '', '', '', '', '', '', '', '', '', '' }
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'hash' then
  answer[1] = 'head'
  local fields = { 'version', 'digest', 'parent', 'signer', 'signature', 'issued', 'epoch' }
  for i, field in ipairs(fields) do
    if redis.call('HSTRLEN', KEYS[1], field) > 256 then
      answer[1] = 'bad'
    else
      answer[i + 1] = redis.call('HGET', KEYS[1], field) or ''
    end
  end
elseif kind ~= 'none' then
  answer[1] = 'bad'
end
if redis.call('TYPE', KEYS[2]).ok == 'string' then
  answer[9] = redis.call('GETRANGE', KEYS[2], 0, 4095)
end
local canary = redis.call('TYPE', KEYS[3]).ok
if canary == 'hash' and redis.call('HSTRLEN', KEYS[3], 'tag') <= 64 and redis.call('HSTRLEN', KEYS[3], 'record') <= 65536 then
  answer[10] = redis.call('HGET', KEYS[3], 'tag') or ''
  if answer[10] ~= ARGV[1] then
    answer[11] = redis.call('HGET', KEYS[3], 'record') or ''
  end
elseif canary ~= 'none' then
  -- Not what a console writes: said once, and otherwise as if there were none.
  answer[10] = 'unreadable'
  if ARGV[1] ~= 'unreadable' then
    answer[11] = 'unreadable'
  end
end
return answer
