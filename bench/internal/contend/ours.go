package contend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/bench/internal/lab"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy"
)

// patience is the budget of a decision here: a benchmark counts decisions and no
// time-outs, however busy the machine is.
const patience = 5 * time.Second

// Replica is one engine with its store and its connections, as a gateway has it.
type Replica struct {
	Engine *limiter.Limiter
	Store  *redisstore.Store
	cancel context.CancelFunc
	ended  chan struct{}
}

// NewReplica makes a replica with the product's own options, except the budget.
// deny bounds the refusals that it remembers, as limiter.Config.DenyEntries does.
func NewReplica(r *lab.Redis, deny int) (*Replica, error) {
	store, err := redisstore.Open(r.URL, redisstore.Options{Deployment: "bench", Budget: patience})
	if err != nil {
		return nil, fmt.Errorf("open a store: %w", err)
	}
	engine, err := limiter.New(limiter.Config{Store: store, Budget: patience, DenyEntries: deny})
	if err != nil {
		return nil, fmt.Errorf("make an engine: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	replica := &Replica{Engine: engine, Store: store, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(replica.ended)
		_ = engine.Run(ctx) // it returns only when told to
	}()
	return replica, nil
}

// Close ends the replica.
func (r *Replica) Close() {
	r.cancel()
	<-r.ended
	_ = r.Store.Close()
}

// Plenty are numbers that refuse nobody who has to ask Redis: a million tokens a
// second.
func Plenty() policy.Numbers { return policy.Numbers{Tokens: 1, Period: 1, Burst: 60_000} }

// Flood are numbers that refuse nobody even where callers need no Redis: 10⁹ tokens
// a second.
func Flood() policy.Numbers { return policy.Numbers{Tokens: 1000, Period: 1, Burst: 1_000_000_000} }

// errDegraded says that a decision was made without Redis: it must not be counted.
var errDegraded = errors.New("decided without Redis")

// Decide asks the engine with one of the requests.
func (r *Replica) Decide(requests []limiter.Request) Decide {
	return func(ctx context.Context, subject int) (bool, error) {
		d := r.Engine.Decide(ctx, requests[subject])
		if d.Degraded {
			return false, errDegraded
		}
		return d.Allowed, nil
	}
}

// Requests are one request per subject, drawing from these limits.
func Requests(limits ...func(tenant string) limiter.Charge) []limiter.Request {
	requests := make([]limiter.Request, Subjects)
	for i, tenant := range names("") {
		charges := make([]limiter.Charge, len(limits))
		for k, limit := range limits {
			charges[k] = limit(tenant)
		}
		requests[i] = limiter.Request{Route: "bench", Identity: tenant, Draw: limiter.Draw{Charges: charges}}
	}
	return requests
}

// PerTenant is a limit of each tenant.
func PerTenant(id string, n policy.Numbers) func(string) limiter.Charge {
	return func(tenant string) limiter.Charge {
		return limiter.Charge{
			Row:     limiter.Row{Kind: limiter.RowTenant, Tenant: tenant},
			LimitID: id, Hash: policy.LimitHash(id), Numbers: n, Cost: 1,
		}
	}
}

// PerAddress is a limit of each client address.
func PerAddress(id string, n policy.Numbers) func(string) limiter.Charge {
	hash := policy.LimitHash(id)
	return func(address string) limiter.Charge {
		return limiter.Charge{Row: limiter.Row{Kind: limiter.RowIP, Subject: address}, LimitID: id, Hash: hash, Numbers: n, Cost: 1}
	}
}

// Leased is a limit of each tenant of which replicas take slices.
func Leased(id string, n policy.Numbers) func(string) limiter.Charge {
	exact := PerTenant(id, n)
	return func(tenant string) limiter.Charge {
		c := exact(tenant)
		c.Leased = true
		return c
	}
}

// Global is a limit that everybody draws from.
func Global(id string, n policy.Numbers) func(string) limiter.Charge {
	return func(string) limiter.Charge {
		return limiter.Charge{
			Row:     limiter.Row{Kind: limiter.RowGlobal},
			LimitID: id, Hash: policy.LimitHash(id), Numbers: n, Cost: 1,
		}
	}
}

// OneLimit draws from the plan only.
func OneLimit() []limiter.Request { return Requests(PerTenant("plan.requests", Plenty())) }

// FourLayers draws from everything together, the plan, a shared limit and the route.
func FourLayers() []limiter.Request {
	return Requests(Global("global.all", Plenty()), PerTenant("plan.requests", Plenty()),
		PerTenant("shared:search", Plenty()), PerTenant("route:report.reports", Plenty()))
}

// Refused draws from a limit that admits one request an hour.
func Refused() []limiter.Request {
	return Requests(PerTenant("route:report.reports", policy.Numbers{Tokens: 1, Period: time.Hour.Microseconds(), Burst: 1}))
}
