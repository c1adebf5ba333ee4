// Package redisstore is the limiter.Store on Redis: one embedded Lua script
// decides one or several requests in one call, by Redis' own clock.
//
// It imports limiter and policy and, besides the standard library, only
// go-redis. It serves a standalone Redis and Sentinel; rows of different
// subjects lie in different Cluster slots.
package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// Store decides on Redis. It is safe for concurrent use. Concurrent calls of
// Take are combined: see combiner.
type Store struct {
	client  redis.UniversalClient
	opts    Options
	take    script
	clock   func() int64 // tests only: sent to a script that goes by it; else nil
	close   func() error // of a client of the Store's own, else nil
	waiting combiner
}

// New makes a Store on client, which should come from ClientOptions. It does
// not connect: an unreachable Redis shows at the first call.
func New(client redis.UniversalClient, opts Options) *Store {
	s := &Store{client: client, opts: opts.withDefaults(), take: newScript(takeSource)}
	s.waiting = combiner{maxWriters: s.opts.Writers, send: s.send}
	return s
}

// Take decides all charges together. It returns when ctx ends, whatever Redis
// does; the request may then have been charged. Every error wraps
// limiter.ErrStore; Cause names its kind.
func (s *Store) Take(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	if err := limiter.CheckDraw(d); err != nil {
		return limiter.Outcome{}, storeError("take", err)
	}
	if err := ctx.Err(); err != nil {
		return limiter.Outcome{}, storeError("take", err)
	}
	out, err := s.waiting.take(ctx, s.pack(d.Charges))
	if err != nil {
		return limiter.Outcome{}, storeError("take", err)
	}
	return out, nil
}

// send makes one call.
func (s *Store) send(ctx context.Context, c *call) (reply, error) {
	args := []any{c.arg}
	if s.clock != nil {
		args = append(args, s.clock())
	}
	answer, err := s.take.run(ctx, s.client, c.keys, args...)
	if err != nil {
		return reply{}, err
	}
	text, ok := answer.(string)
	if !ok {
		return reply{}, fmt.Errorf("%w: %T", errReply, answer)
	}
	return openReply(text, c.replyLen)
}

// probeNumbers never refuse a prober and are full again within 2 s.
func probeNumbers() policy.Numbers { return policy.Numbers{Tokens: 1, Period: 1, Burst: 1_000_000} }

// Ping draws from a bucket of its own, because only a write shows that Redis
// can serve: a read-only replica or a full memory answers a PING.
func (s *Store) Ping(ctx context.Context) error {
	probe := limiter.Charge{Numbers: probeNumbers(), Cost: 1}
	c := newCall()
	c.add(request{keys: []string{s.probeKey()}, arg: appendCharge([]byte{1}, &probe)})
	answer, err := s.send(ctx, c)
	if err == nil {
		_, err = answer.next(1)
	}
	if err != nil {
		return storeError("ping", err)
	}
	return nil
}

func storeError(action string, err error) error {
	return fmt.Errorf("%s: %w: %w", action, limiter.ErrStore, err)
}

// Amend is not there yet.
func (s *Store) Amend(context.Context, string, []limiter.Amendment) error { return limiter.ErrStore }

// Renew is not there yet.
func (s *Store) Renew(context.Context, []limiter.Lease) ([]bool, error) { return nil, limiter.ErrStore }

// Release is not there yet.
func (s *Store) Release(context.Context, []limiter.Lease) error { return limiter.ErrStore }
