// Package redisstore is the limiter.Store on Redis: embedded Lua scripts decide
// one or several requests in one call, and correct what was decided, by Redis'
// clock.
//
// It imports limiter and policy and, besides the standard library, only
// go-redis. It serves a standalone Redis, Sentinel and a Cluster.
package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/limiter"
)

// Store decides on Redis. It is safe for concurrent use. Concurrent calls of
// Take are combined: see combiner.
type Store struct {
	client  redis.UniversalClient
	opts    Options
	keys    *keyspace
	scripts scripts
	clock   func() int64 // tests only: sent to scripts that go by it; else nil
	close   func() error // of a client of the Store's own, else nil
	// lanes combine the requests of one lane each; where all rows can be decided
	// together there is one.
	lanes  []combiner
	shards *shards // of a Cluster, else nil
	gates  *gates  // nil: the client has no bound on its connections
	spares *spares

	refunds sync.WaitGroup
	room    chan struct{} // for refunds under way
}

// New makes a Store on client, which should be fit for decisions as Open's is. It
// does not connect: an unreachable Redis shows at the first call.
func New(client redis.UniversalClient, opts Options) *Store {
	s := &Store{client: client, opts: opts.withDefaults(), room: make(chan struct{}, maxRefunds), spares: newSpares()}
	s.gates = newGates(client, s.opts.Writers)
	s.keys = newKeyspace(s.opts.Namespace, s.opts.Deployment)
	s.scripts = newScripts(func(source string) string { return source })
	lanes := 1
	if s.Clustered() {
		lanes, s.shards = laneCount, &shards{now: time.Now, others: s.secondOpinion}
	}
	s.lanes = make([]combiner, lanes)
	for i := range s.lanes {
		s.lanes[i] = combiner{maxWriters: s.opts.Writers, send: s.sender(i), spares: s.spares}
	}
	return s
}

// Take decides the whole draw. It returns by the deadline of ctx, whatever Redis
// does; the request may then have been charged. Every error wraps
// limiter.ErrStore; Cause names its kind.
func (s *Store) Take(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	if err := limiter.CheckDraw(d); err != nil {
		return limiter.Outcome{}, storeError("take", err)
	}
	if err := ctx.Err(); err != nil {
		return limiter.Outcome{}, storeError("take", err)
	}
	var out limiter.Outcome
	var err error
	if s.shards == nil {
		out, err = s.takeIn(ctx, 0, d, 0)
	} else {
		out, err = s.takeAcross(ctx, d)
	}
	if err != nil {
		return limiter.Outcome{}, storeError("take", err)
	}
	return out, nil
}

// takeIn decides a draw whose keys lie in one lane.
func (s *Store) takeIn(ctx context.Context, lane int, d *limiter.Draw, flags byte) (limiter.Outcome, error) {
	w := s.spares.waiter(ctx)
	s.keys.pack(&w.req, d, flags)
	out, err := s.lanes[lane].take(w) //nolint:contextcheck // a call lasts as long as its last waiter, not as the first
	if err != nil && s.shards != nil {
		err = s.shards.left(err)
	}
	return out, err
}

// sender makes the decision calls of a lane.
func (s *Store) sender(lane int) func(context.Context, *call) (reply, error) {
	return func(ctx context.Context, c *call) (reply, error) {
		c.finish()
		what := &s.scripts.plain
		if c.full {
			what = &s.scripts.full
		}
		text, err := s.run(ctx, lane, what, c.keys[:], c.arg)
		if err != nil {
			return reply{}, err
		}
		answer, err := openReply(text, c.replyLen)
		if err == nil {
			answer.levels = make([]limiter.Level, c.charges)
		}
		return answer, err
	}
}

// run makes one call of a script whose keys lie in the lane.
func (s *Store) run(ctx context.Context, lane int, what *script, keys [][]string, arg []byte) (string, error) {
	if s.shards != nil {
		if err := s.shards.enter(lane); err != nil {
			return "", err
		}
	}
	args := make([]any, 1, 2)
	args[0] = arg
	if s.clock != nil {
		args = append(args, s.clock())
	}
	text, err := s.gated(ctx, what, keys, args...)
	if s.shards != nil {
		err = s.shards.leave(lane, err)
	}
	return text, err
}

// gated makes the call when there is a connection for it.
func (s *Store) gated(ctx context.Context, what *script, keys [][]string, args ...any) (string, error) {
	g, err := s.gates.of(ctx, firstKey(keys))
	if err != nil {
		return "", err
	}
	amends := what == &s.scripts.amend
	if err := g.enter(ctx, amends); err != nil {
		return "", err
	}
	defer g.leave(amends)
	return what.run(ctx, s.client, keys, args...)
}

func storeError(action string, err error) error {
	return fmt.Errorf("%s: %w: %w", action, limiter.ErrStore, err)
}
