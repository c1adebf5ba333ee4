-- Reads head and stamp at one moment, whatever somebody wrote there: nothing
-- larger than a console writes leaves Redis.
-- KEYS: policy head, stamp
-- Returns none, head or bad; then version, digest, parent, signer, signature,
-- issued, epoch; then the stamp. '' stands for what is absent.
local answer = { 'none', '', '', '', '', '', '', '', '' }
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
return answer
