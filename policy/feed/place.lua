-- Reads the directory's head, whatever somebody wrote there: nothing larger than
-- a console writes leaves Redis.
-- KEYS: directory head
-- Returns epoch, seq and servers; '' stands for what is absent or makes no sense.
local answer = { '', '', '' }
if redis.call('TYPE', KEYS[1]).ok == 'hash' then
  for i, field in ipairs({ 'epoch', 'seq', 'servers' }) do
    if redis.call('HSTRLEN', KEYS[1], field) <= 64 then
      answer[i] = redis.call('HGET', KEYS[1], field) or ''
    end
  end
end
return answer
