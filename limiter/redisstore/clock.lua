-- What all scripts begin with: Redis' clock.

-- prologue: the tests put their own clock in its place
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local keep = 1000 -- ms that a row is kept once all its buckets are full
-- end of prologue

local call, try, spread = redis.call, redis.pcall, unpack
local pack, unpack, byte, fmod = struct.pack, struct.unpack, string.byte, math.fmod
local EXACT = 9007199254740992

