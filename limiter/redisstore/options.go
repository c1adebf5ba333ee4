package redisstore

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Time limits of a client from ClientOptions. A decision has its own, shorter
// budget; these bound what has none, such as a handshake that nobody waits for
// any more.
const (
	dialTimeout = 100 * time.Millisecond
	ioTimeout   = 50 * time.Millisecond
	poolTimeout = 25 * time.Millisecond
	poolSize    = 16
)

var errURL = errors.New("not a Redis URL: want redis://user:password@host:port/db, rediss://… or unix://…")

// Options name where a Store's rows lie.
type Options struct {
	Namespace  string // first part of every key; default "hg"
	Deployment string // key of the hashes that stand for identifiers
	Writers    int    // calls in flight at once, 1..64; default 4
}

func (o Options) withDefaults() Options {
	if o.Namespace == "" {
		o.Namespace = "hg"
	}
	if o.Writers == 0 {
		o.Writers = 4
	}
	o.Writers = min(max(o.Writers, 1), 64)
	return o
}

// ClientOptions are the options for a URL such as redis://user:pass@host:6379/0
// or unix:///path: a call ends with its context, nothing is ever retried
// (a replayed script would charge twice), and the number of connections has a
// hard bound, pool_size in the URL or 16. The error never quotes the URL.
func ClientOptions(url string) (*redis.Options, error) {
	opts, err := redis.ParseURL(url)
	if err != nil { // it would quote the URL, password included
		return nil, errURL
	}
	if opts.PoolSize == 0 {
		opts.PoolSize = poolSize
	}
	opts.MaxActiveConns = opts.PoolSize // PoolSize alone is no bound
	opts.MinIdleConns = opts.PoolSize / 4
	// After PoolSize failed dials in a row go-redis dials once a second only,
	// which would put off the return of a store that is back; MaxActiveConns is
	// the bound, so the size may be what an outage of hours does not reach.
	opts.PoolSize = 1 << 16
	opts.MaxConcurrentDials = opts.MaxActiveConns
	opts.PipelinePoolSize = -1
	opts.ContextTimeoutEnabled = true
	opts.MaxRetries = -1
	opts.DialerRetries = 1
	opts.DialTimeout = dialTimeout
	opts.ReadTimeout = ioTimeout
	opts.WriteTimeout = ioTimeout
	opts.PoolTimeout = poolTimeout
	// Neither is needed, and a user confined to what docs/redis.md lists may
	// send neither.
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return opts, nil
}

// FitBudget raises the client's time limits where they are below the budget of
// a decision, which they would otherwise cut short.
func FitBudget(opts *redis.Options, budget time.Duration) {
	for _, limit := range []*time.Duration{&opts.DialTimeout, &opts.ReadTimeout, &opts.WriteTimeout, &opts.PoolTimeout} {
		*limit = max(*limit, budget)
	}
}
