-- Lists replicas and the times of their heartbeats, the longest silent first.
-- Gateways may write here, and one that was taken over may write anything: what
-- is no index is removed, and so is what is no id, before it costs more.
-- KEYS: index   ARGV: most replicas, longest id
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'zset' then
  if kind ~= 'none' then
    redis.call('DEL', KEYS[1])
  end
  return {}
end
local all, answer = redis.call('ZRANGE', KEYS[1], -tonumber(ARGV[1]), -1, 'WITHSCORES'), {}
for i = 1, #all, 2 do
  if #all[i] > tonumber(ARGV[2]) then
    redis.call('ZREM', KEYS[1], all[i])
  else
    answer[#answer + 1] = all[i]
    answer[#answer + 1] = string.format('%.0f', tonumber(all[i + 1]))
  end
end
return answer
