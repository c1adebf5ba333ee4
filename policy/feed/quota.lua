-- Corrects counters of quotas in one lane, each as it stands now: gateways count on meanwhile.
--
-- KEYS    the counters
-- ARGV[1] raise: to these units at least; lower: by these units, and not below 0
-- ARGV    then for each key its units, and until when it is kept, in Unix µs by
--         Redis' clock; 0: a lifetime
-- returns what each counter holds then, -1 for one that is not there or holds no count

local QUOTA_KEPT, LIFETIME_KEPT = 3600000, 34560000000 -- ms, as gateways keep them
local MOST = 9007199254740991
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local how, answer = ARGV[1], {}

for i, key in ipairs(KEYS) do
  local units, ends = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  local value = redis.pcall('GET', key)
  local have = type(value) == 'string' and tonumber(value) or nil
  if have and (have < 0 or have > MOST or have % 1 ~= 0) then have = nil end
  local want = have
  if how == 'raise' then
    want = math.max(have or 0, units)
  elseif have then
    want = math.max(0, have - units)
  end
  if want and want ~= have then
    local ttl = LIFETIME_KEPT
    if ends > 0 then ttl = math.max(0, math.ceil((ends - now) / 1000)) + QUOTA_KEPT end
    redis.call('SET', key, string.format('%.0f', want), 'PX', string.format('%.0f', ttl))
  end
  answer[i] = string.format('%.0f', want or -1)
end
return answer
