package gateway

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// Gateway is one replica. Run it once.
type Gateway struct {
	cfg     Config
	limiter *limiter.Limiter
	invalid *invalidLimit // refused credentials by address
	rescued *invalidLimit // lookups in spite of it
	metrics *metrics
	tally   *tally
	counter *usage.Counter
	terms   *termsBook
	sealer  *sealer
	// incidents and liveChanged wait for keepState; earlier are the incidents of
	// runs before this one, the newest first.
	incidents   chan incident
	liveChanged chan struct{}
	earlier     []incident
	live        atomic.Int64 // live replicas as last known, at least 1
	view        atomic.Pointer[policyView]
	proxy       *httputil.ReverseProxy
	nudge       chan struct{} // rings for a heartbeat out of turn
	// consoleBeats holds the heartbeat that is to be brought to the console.
	consoleBeats chan policy.Heartbeat
	draining     atomic.Bool
	// clockOffset is the own clock less Redis', in ns, as of the last heartbeat.
	clockOffset atomic.Int64
	recorder    *recorder         // of decisions; nil: none
	keyUse      *usage.KeyCounter // nil: nobody would carry it
	// leasesGlobal says that limits per global are leased whatever the policy says.
	leasesGlobal bool
	roundTrip    atomic.Int64          // of the last heartbeat, in µs
	reached      atomic.Bool           // the last heartbeat got through
	tried        atomic.Bool           // a heartbeat was tried
	settled      atomic.Bool           // the start is over; see unready
	receipts     *receipts             // nil: refusals carry none
	refused      *usage.RefusedCounter // nil: nobody would carry it
	leaseTag     string
	started      time.Time
	bound        Bound
}

// New makes a gateway, or returns an error that lists every problem of cfg.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("gateway configuration: %w", err)
	}
	cfg.fillDefaults()
	g := &Gateway{
		cfg: cfg, metrics: newMetrics(), tally: newTally(),
		invalid: newInvalidLimit(maxInvalidEntries), rescued: newInvalidLimit(1),
		counter: usage.NewCounter(cfg.Identity.ID, cfg.Identity.Boot),
		terms:   newTermsBook(cfg.Log),
		nudge:   make(chan struct{}, 1), consoleBeats: make(chan policy.Heartbeat, 1), incidents: make(chan incident, waitingIncidents), liveChanged: make(chan struct{}, 1),
		started: cfg.Now(),
	}
	var err error
	if g.sealer, err = newSealer(cfg.DecideToken); err != nil {
		return nil, fmt.Errorf("gateway configuration: %w", err)
	}
	if g.receipts, err = newReceipts(cfg.StateDir); err != nil {
		return nil, fmt.Errorf("gateway configuration: %w", err)
	}
	g.restore()
	g.recorder, g.keyUse = newRecorder(&g.cfg, g.metrics), newKeyUse(&g.cfg, g.metrics)
	g.refused, g.leaseTag = newRefused(&g.cfg), limiter.LeaseTag(cfg.Identity.ID)
	if g.limiter, err = limiter.New(g.limiterConfig()); err != nil {
		return nil, fmt.Errorf("gateway configuration: %w", err)
	}
	if cfg.Upstream != nil {
		g.proxy = g.newProxy()
	}
	g.metrics.observe(g)
	return g, nil
}

// limiterConfig is how this replica decides.
func (g *Gateway) limiterConfig() limiter.Config {
	cfg := &g.cfg
	clustered := false
	if store, ok := cfg.Store.(interface{ Clustered() bool }); ok {
		clustered = store.Clustered()
	}
	g.leasesGlobal = clustered
	return limiter.Config{
		Store:  &meteredStore{Store: cfg.Store, metrics: g.metrics, cause: cfg.StoreCause, failed: g.tally.storeFailed},
		Budget: cfg.Budget, Now: cfg.Now, FallbackEntries: cfg.FallbackEntries, DenyEntries: cfg.DenyEntries,
		LeaseGlobal: clustered, Replicas: func() int { return int(g.live.Load()) },
		Cause: cfg.StoreCause, OnIncident: g.onIncident, OnRelease: g.recordEnds,
		OnModeChange: func(degraded bool) {
			cfg.Log.Warn("mode changed", "degraded", degraded)
			g.ring()
		},
	}
}

// ring asks for a heartbeat now.
func (g *Gateway) ring() {
	select {
	case g.nudge <- struct{}{}:
	default:
	}
}

// jitter draws the Retry-After of a 503, so that refused callers do not all come
// back in the same second.
func (g *Gateway) jitter() int64 { return g.cfg.Jitter() }

func randomSeconds() int64 {
	return 1 + mathrand.Int64N(3) //nolint:gosec // spreads load, guards nothing
}

// reportPlan logs once that the policy lacks a plan that a tenant is on.
func (g *Gateway) reportPlan(plan string) {
	if g.tally.missesPlan(plan) {
		g.cfg.Log.Error("a tenant is on a plan that the policy in force does not have; its requests get 503", "plan", plan)
	}
}

// mode is how the replica decides at the moment.
func (g *Gateway) mode() policy.Mode {
	switch {
	case g.cfg.Policies.Current() == nil:
		return policy.ModeNoPolicy
	case g.limiter.Degraded():
		return policy.ModeDegraded
	}
	return policy.ModeNormal
}

// settleTime bounds how long a start waits for the directory.
const settleTime = 5 * time.Second

// unready lists why no traffic should be sent here. An outage of Redis is none
// of it: the fail modes serve, and taking every replica out at once would turn a
// degraded service into no service. Only at the start is the directory waited
// for, a few seconds at most, where Redis is there to read it from.
func (g *Gateway) unready() []string {
	var reasons []string
	if g.draining.Load() {
		reasons = append(reasons, "draining")
	}
	if g.cfg.Policies.Current() == nil {
		reasons = append(reasons, "no-policy")
	}
	if !g.directoryRead() {
		reasons = append(reasons, "directory-unread")
	}
	return reasons
}

// directoryRead reports whether keys can be looked up, or the start is over.
func (g *Gateway) directoryRead() bool {
	if !g.settled.Load() {
		read := g.cfg.Directory.Place().Epoch != "" || !g.reached.Load()
		late := g.cfg.Now().Sub(g.started) > settleTime
		if !late && !(g.tried.Load() && read) {
			return false
		}
		g.settled.Store(true)
	}
	return true
}

// requestID keeps a trusted proxy's request id if it is one, else makes one.
func requestID(header http.Header, trusted bool) string {
	if id := header.Get(headerRequestID); trusted && ValidRequestID(id) {
		return id
	}
	return rand.Text()
}

// ValidRequestID reports whether id matches [A-Za-z0-9_-]{8,64}: nothing that
// could break a log line or a header.
func ValidRequestID(id string) bool {
	if len(id) < 8 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
