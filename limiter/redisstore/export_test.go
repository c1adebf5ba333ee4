package redisstore

import "github.com/redis/go-redis/v9"

// virtualPrologue takes the time from the caller, and keeps rows for an hour of
// real time so that only the virtual clock ends them.
const virtualPrologue = "local now = tonumber(ARGV[2])\nlocal keep = 3600000\n"

// NewVirtual makes a Store whose script is built from the same source but goes
// by the given clock, in Unix µs.
func NewVirtual(client redis.UniversalClient, opts Options, clock func() int64) *Store {
	s := New(client, opts)
	s.take = newScript(withPrologue(takeSource, virtualPrologue))
	s.clock = clock
	return s
}
