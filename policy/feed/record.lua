-- Puts directory records and announces each that was written.
-- KEYS: directory head, changes, bell, then one key a record
-- ARGV: longest stream, then per record: kind, id, seq, TTL in ms or 0, record
-- Returns epoch or '', seq after the last, number written.
local head, changes = KEYS[1], KEYS[2]
local written = 0
if redis.call('TYPE', head).ok ~= 'hash' or not tonumber(redis.call('HGET', head, 'seq') or '') then
  -- Nothing here, or nothing that makes sense: a directory that is to be filled.
  redis.call('DEL', head, changes)
end
for i = 4, #KEYS do
  local at = 2 + (i - 4) * 5
  local kind, id, seq, ttl, record = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4]
  local held = redis.call('TYPE', KEYS[i]).ok == 'string' and redis.call('GET', KEYS[i]) or ''
  local heldSeq = tonumber(string.match(held, '^hgr1 %S+ %S+ (%d+) ') or '')
  -- An older one is refused. One of the same number is written only when its
  -- bytes differ: it was signed anew, or what is here was tampered with.
  if not (heldSeq and heldSeq > tonumber(seq)) and held ~= record then
    if ttl > 0 then
      redis.call('SET', KEYS[i], record, 'PX', ttl)
    else
      redis.call('SET', KEYS[i], record)
    end
    local change = redis.call('HINCRBY', head, 'seq', 1)
    local entry = { 'XADD', changes, 'MAXLEN', ARGV[1], string.format('%.0f-0', change), 'kind', kind, 'id', id }
    if type(redis.pcall(unpack(entry))) == 'table' then
      -- The stream does not belong to this head: both begin anew, unnamed until
      -- the console has filled the directory again.
      redis.call('DEL', changes)
      redis.call('HDEL', head, 'epoch')
      redis.call(unpack(entry))
    end
    written = written + 1
  end
end
local now = redis.call('HMGET', head, 'epoch', 'seq')
if written > 0 then
  redis.call('PUBLISH', KEYS[3], 'directory ' .. now[2])
end
return { now[1] or '', now[2] or '0', tostring(written) }
