package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
)

// maxRouteLabels bounds the values of the label route; routes met later are
// "other". Nothing else that grows is a label: no tenant, key or address.
const maxRouteLabels = 100

// metrics are what /metrics shows. A registry of its own keeps two gateways in
// one process apart.
type metrics struct {
	registry  *prometheus.Registry
	received  prometheus.Counter
	decisions *prometheus.CounterVec
	seconds   prometheus.Histogram
	store     *prometheus.CounterVec
	lookups   *prometheus.CounterVec
	degraded  *prometheus.CounterVec
	upstream  *prometheus.CounterVec
	cached    *prometheus.CounterVec
	shadows   *prometheus.CounterVec
	overflows *prometheus.CounterVec
	overage   *prometheus.CounterVec
	settles   *prometheus.CounterVec
	releases  *prometheus.CounterVec

	mu     sync.RWMutex
	routes map[string]bool
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), routes: map[string]bool{}}
	m.received = prometheus.NewCounter(prometheus.CounterOpts{Name: "headgate_received_total", Help: "Requests that were put to a decision, at any door."})
	m.decisions = counterVec("headgate_decisions_total", "Decisions by route, class and mode. Their sum is headgate_received_total less what is in flight.", "route", "outcome", "mode")
	m.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "headgate_decision_seconds", Help: "Time from receiving a request to its decision.",
		Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .015, .02, .025, .03, .05, .1},
	})
	m.store = counterVec("headgate_store_errors_total", "Failed calls to the limiter store by cause.", "cause")
	m.lookups = counterVec("headgate_directory_lookups_total", "Lookups of keys and tenants by result.", "result")
	m.degraded = counterVec("headgate_degraded_total", "Decisions made without the store, by route, fail mode and cause.", "route", "mode", "cause")
	m.cached = counterVec("headgate_cached_refusals_total", "Refusals that were remembered: the store was not asked.", "route")
	m.shadows = counterVec("headgate_shadow_refusals_total", "Requests that a limit in shadow mode would have refused, by route and kind of limit.", "route", "kind")
	m.overflows = counterVec("headgate_overflow_total", "Requests counted in an overflow bucket: their limit has too many identifiers.", "route")
	m.overage = counterVec("headgate_overage_total", "Requests admitted beyond their tenant's quota, to be billed.", "route")
	m.settles = counterVec("headgate_settles_total", "Corrections of reserved costs by result: exact, charged, refunded, failed; missing or malformed when the upstream told none.", "result")
	m.releases = counterVec("headgate_releases_total", "Releases of leases at doors that do not see the end, by result.", "result")
	m.upstream = counterVec("headgate_upstream_errors_total", "Requests that the upstream did not answer, by cause.", "cause")
	m.registry.MustRegister(m.received, m.decisions, m.seconds, m.store, m.lookups, m.degraded, m.upstream,
		m.cached, m.shadows, m.overflows, m.overage, m.settles, m.releases,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// observe adds the gauges that are read from g when somebody looks.
func (m *metrics) observe(g *Gateway) {
	gauge := func(name, help string, read func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	gauge("headgate_breaker_state", "Breaker around the store: 0 closed, 1 half-open, 2 open.", func() float64 {
		return map[string]float64{"closed": 0, "half-open": 1, "open": 2}[g.limiter.BreakerState()]
	})
	gauge("headgate_policy_version", "Version of the policy in force; 0 without one.", func() float64 {
		return float64(g.cfg.Policies.Status().Version)
	})
	gauge("headgate_policy_nack", "1 while a published version cannot be used here.", func() float64 {
		return one(g.cfg.Policies.Status().NACK != nil)
	})
	gauge("headgate_stamp_age_seconds", "Age of the newest statement that the policy in force is current; -1 unknown.", func() float64 {
		return seconds(g.cfg.Policies.Status())
	})
	gauge("headgate_policy_stale", "1 while nobody has said for 2 min that the policy in force is current: Redis may be frozen or an old copy.", func() float64 {
		return one(g.cfg.Policies.Status().Stale())
	})
	gauge("headgate_leases_held", "Leases of requests under way here.", func() float64 { return float64(g.limiter.LeasesHeld()) })
	m.stats(g)
	m.spooled(g.cfg.Spool)
	gauge("headgate_ready", "1 while /readyz says so.", func() float64 { return one(len(g.unready()) == 0) })
}

// stats adds the limiter's own counts.
func (m *metrics) stats(g *Gateway) {
	for _, c := range []struct {
		name, help string
		read       func(limiter.Stats) int64
	}{
		{"headgate_local_admissions_total", "Requests admitted from slices of leased limits alone.", func(s limiter.Stats) int64 { return s.Local }},
		{"headgate_slices_total", "Slices taken of leased limits.", func(s limiter.Stats) int64 { return s.Slices }},
		{"headgate_slice_tokens_total", "Tokens in those slices.", func(s limiter.Stats) int64 { return s.SliceTokens }},
		{"headgate_slice_tokens_returned_total", "Tokens of slices that were given back.", func(s limiter.Stats) int64 { return s.SliceReturned }},
		{"headgate_lease_renewals_failed_total", "Leases that could not be renewed, each time.", func(s limiter.Stats) int64 { return s.RenewFailed }},
		{"headgate_leases_lost_total", "Leases that were lost to others while their request ran.", func(s limiter.Stats) int64 { return s.LeasesLost }},
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help}, func() float64 {
			return float64(c.read(g.limiter.Stats()))
		}))
	}
}

func seconds(s feed.Status) float64 {
	if s.StampAge < 0 {
		return -1
	}
	return s.StampAge.Seconds()
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// route is the value of the label route for a route's name.
func (m *metrics) route(name string) string {
	if name == "" {
		return "none"
	}
	m.mu.RLock()
	known, full := m.routes[name], len(m.routes) >= maxRouteLabels
	m.mu.RUnlock()
	switch {
	case known:
		return name
	case full:
		return "other"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.routes[name] && len(m.routes) >= maxRouteLabels {
		return "other"
	}
	m.routes[name] = true
	return name
}

// decided books one decision.
func (m *metrics) decided(v *Verdict, took time.Duration) {
	route, mode := m.route(v.routeName()), policy.ModeNormal
	switch {
	case v.Policy == nil:
		mode = policy.ModeNoPolicy
	case v.Degraded:
		mode = policy.ModeDegraded
		m.degraded.WithLabelValues(route, string(v.Route.Route.OnStoreFailure.Mode), v.Cause).Inc()
	}
	m.decisions.WithLabelValues(route, string(v.class()), string(mode)).Inc()
	m.seconds.Observe(took.Seconds())
	m.limits(route, v)
}

// limits books what is special about the limits of a decision.
func (m *metrics) limits(route string, v *Verdict) {
	if v.Cached {
		m.cached.WithLabelValues(route).Inc()
	}
	for i := range v.Shadows {
		if s := &v.Shadows[i]; s.violated() {
			m.shadows.WithLabelValues(route, string(s.Kind)).Inc()
		}
	}
	overflow := false
	for i := range v.Limits {
		overflow = overflow || v.Limits[i].Overflow
		if v.Limits[i].Overage {
			m.overage.WithLabelValues(route).Inc()
		}
	}
	if overflow {
		m.overflows.WithLabelValues(route).Inc()
	}
}

// lookup books one question to the directory.
func (m *metrics) lookup(err error) {
	result := "found"
	switch {
	case errors.Is(err, feed.ErrUnknown):
		result = "unknown"
	case err != nil:
		result = "unavailable"
	}
	m.lookups.WithLabelValues(result).Inc()
}

// meteredStore counts the failures of a store by their cause.
type meteredStore struct {
	limiter.Store
	metrics *metrics
	cause   func(error) string
	failed  func(cause string)
}

// Take decides and counts an error.
func (s *meteredStore) Take(ctx context.Context, draw *limiter.Draw) (limiter.Outcome, error) {
	out, err := s.Store.Take(ctx, draw)
	s.count(err)
	return out, err
}

// Amend corrects and counts an error.
func (s *meteredStore) Amend(ctx context.Context, id string, corrections []limiter.Amendment) error {
	err := s.Store.Amend(ctx, id, corrections)
	s.count(err)
	return err
}

// Renew renews and counts an error.
func (s *meteredStore) Renew(ctx context.Context, leases []limiter.Lease) ([]bool, error) {
	held, err := s.Store.Renew(ctx, leases)
	s.count(err)
	return held, err
}

// Release releases and counts an error.
func (s *meteredStore) Release(ctx context.Context, leases []limiter.Lease) error {
	err := s.Store.Release(ctx, leases)
	s.count(err)
	return err
}

// AmendAt is Amend that says when.
func (s *meteredStore) AmendAt(ctx context.Context, id string, corrections []limiter.Amendment) (int64, error) {
	at, err := limiter.AmendAt(ctx, s.Store, id, corrections)
	s.count(err)
	return at, err
}

// ReleaseAt is Release that says when.
func (s *meteredStore) ReleaseAt(ctx context.Context, leases []limiter.Lease) (int64, error) {
	at, err := limiter.ReleaseAt(ctx, s.Store, leases)
	s.count(err)
	return at, err
}

func (s *meteredStore) count(err error) {
	if err == nil || errors.Is(err, limiter.ErrCharges) { // the question's fault, not the store's
		return
	}
	cause := s.cause(err)
	s.metrics.store.WithLabelValues(cause).Inc()
	s.failed(cause)
}
