-- Reads the directory's head and the changes after a place at one moment.
-- KEYS: directory head, changes   ARGV: seq of the place, most changes
-- Returns epoch or '', seq or '', then for each change: entry id, kind, id, or
-- entry id, 'many ' and kind, ids with blanks between them.
local answer = { '', '' }
if redis.call('TYPE', KEYS[1]).ok == 'hash' then
  for i, field in ipairs({ 'epoch', 'seq' }) do
    if redis.call('HSTRLEN', KEYS[1], field) <= 64 then
      answer[i] = redis.call('HGET', KEYS[1], field) or ''
    end
  end
end
if redis.call('TYPE', KEYS[2]).ok ~= 'stream' then
  return answer
end
for _, entry in ipairs(redis.call('XRANGE', KEYS[2], '(' .. ARGV[1] .. '-0', '+', 'COUNT', ARGV[2])) do
  local named, longest = { kind = '', id = '', ids = '' }, { kind = 64, id = 64, ids = 16384 }
  for i = 1, #entry[2], 2 do
    local field, value = entry[2][i], entry[2][i + 1]
    if named[field] and #value <= longest[field] then
      named[field] = value
    end
  end
  local many = named.ids ~= ''
  answer[#answer + 1] = entry[1]
  answer[#answer + 1] = many and 'many ' .. named.kind or named.kind
  answer[#answer + 1] = many and named.ids or named.id
end
return answer
