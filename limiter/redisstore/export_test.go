package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/limiter"
)

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

// TakeAll decides several requests in one call, as the combiner does.
func (s *Store) TakeAll(ctx context.Context, requests [][]limiter.Charge) ([]limiter.Outcome, []error) {
	c := newCall()
	for _, charges := range requests {
		c.add(s.pack(charges))
	}
	outs, errs := make([]limiter.Outcome, len(requests)), make([]error, len(requests))
	answer, err := s.send(ctx, c)
	for i := range requests {
		if errs[i] = err; err == nil {
			outs[i], errs[i] = answer.next(c.charges[i])
		}
	}
	return outs, errs
}

// ProbeKey is the key of the row that Ping draws from.
func (s *Store) ProbeKey() string { return s.probeKey() }
