package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Time limits of a client for decisions. A decision has its own, shorter
// budget; these bound what has none, such as a handshake that nobody waits for
// any more.
const (
	dialTimeout = 100 * time.Millisecond
	ioTimeout   = 50 * time.Millisecond
	poolTimeout = 25 * time.Millisecond
	poolSize    = 24
)

// Options name where a Store's rows lie, and what it costs at most.
type Options struct {
	Namespace  string // first part of every key; default "hg"
	Deployment string // key of the hashes that stand for identifiers
	Writers    int    // calls in flight at once (in a Cluster: per lane), 1..64; default 4
	// Budget is the longest that a decision may take; Open raises the client's
	// time limits to it where they are below.
	Budget time.Duration
	// Credentials, if not nil, gives each new connection of Open's client its user
	// and password, so that a password may change while the process runs.
	Credentials func(ctx context.Context) (user, password string, err error)
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

// Open makes a Store on the Redis behind a URL (see ParseURL), with a client of
// its own that Close ends. It does not connect: an unreachable Redis shows at the
// first call.
func Open(url string, opts Options) (*Store, error) {
	universal, kind, err := decisionOptions(url, opts)
	if err != nil {
		return nil, err
	}
	s := New(newClient(universal, kind), opts)
	s.close = s.client.Close
	return s, nil
}

func decisionOptions(url string, opts Options) (*redis.UniversalOptions, Kind, error) {
	o, kind, err := ParseURL(url)
	if err != nil {
		return nil, "", err
	}
	o.CredentialsProviderContext = opts.Credentials
	fitDecisions(o)
	fitBudget(opts.Budget, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
	return o, kind, nil
}

// fitDecisions makes options fit for decisions: a call ends with its context,
// nothing is ever retried (a replayed script would charge twice), and the
// number of connections to a node has a hard bound, pool_size in the URL or 24. No
// more than half of them carry calls (see gates).
func fitDecisions(o *redis.UniversalOptions) {
	if o.PoolSize == 0 {
		o.PoolSize = poolSize
	}
	o.MaxActiveConns = o.PoolSize // PoolSize alone is no bound
	o.MinIdleConns = o.PoolSize / 4
	// After PoolSize failed dials in a row go-redis dials once a second only,
	// which would put off the return of a store that is back; MaxActiveConns is
	// the bound, so the size may be what an outage of hours does not reach.
	o.PoolSize = 1 << 16
	o.MaxConcurrentDials = o.MaxActiveConns
	o.PipelinePoolSize = -1
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = dialTimeout
	o.ReadTimeout = ioTimeout
	o.WriteTimeout = ioTimeout
	o.PoolTimeout = poolTimeout
	// Neither is needed, and a user confined to what docs/redis.md lists may
	// send neither.
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// fitBudget raises time limits that are below the budget of a decision, which
// they would otherwise cut short.
func fitBudget(budget time.Duration, limits ...*time.Duration) {
	for _, limit := range limits {
		*limit = max(*limit, budget)
	}
}

// ClientOptions are the options for decisions on the one server behind a URL.
// Open does the same for every kind.
func ClientOptions(url string) (*redis.Options, error) {
	universal, kind, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	if kind != Standalone {
		return nil, errURL
	}
	fitDecisions(universal)
	return universal.Simple(), nil
}
