-- Reads a record and, at the same moment, whether the directory is whole: only
-- then does an absent record mean that there is none. With a key comes the
-- record of its tenant, so that a caller who is new here costs one round trip.
-- KEYS: directory head, record   ARGV: prefix of tenant keys or '', longest record
-- Returns epoch or '', string, none or bad, record, tenant id, tenant record.
local answer = { '', 'none', '', '', '' }
if redis.call('TYPE', KEYS[1]).ok == 'hash' and redis.call('HSTRLEN', KEYS[1], 'epoch') <= 64 then
  answer[1] = redis.call('HGET', KEYS[1], 'epoch') or ''
end
local kind = redis.call('TYPE', KEYS[2]).ok
if kind ~= 'string' then
  if kind ~= 'none' then
    answer[2] = 'bad'
  end
  return answer
end
answer[2], answer[3] = 'string', redis.call('GETRANGE', KEYS[2], 0, ARGV[2])
if ARGV[1] == '' then
  return answer
end
local tenant = string.match(answer[3], '"tenant":"([%w_-]+)"')
if tenant and #tenant <= 64 and redis.call('TYPE', ARGV[1] .. tenant).ok == 'string' then
  answer[4], answer[5] = tenant, redis.call('GETRANGE', ARGV[1] .. tenant, 0, ARGV[2])
end
return answer
