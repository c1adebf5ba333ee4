package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Defaults of a Config.
const (
	DefaultBudget          = 25 * time.Millisecond
	DefaultFallbackEntries = 100_000
	DefaultDenyEntries     = 65_536
)

const maxDenyEntries = 1 << 24

// Config is what a Limiter needs. Only Store is compulsory.
type Config struct {
	Store Store
	// Budget is the longest time a decision may take, waiting for a connection
	// included. Default 25 ms.
	Budget time.Duration
	// Now is the process' clock, for the breaker and the fallback only: limits
	// go by the store's clock. Default time.Now.
	Now func() time.Time
	// FallbackEntries bounds the buckets of the fallback, over all routes. Beyond
	// it newcomers share one bucket per route. Default 100 000.
	FallbackEntries int
	Breaker         BreakerConfig
	// Jitter returns a number in [0, 1). Default math/rand.
	Jitter func() float64
	// DenyEntries bounds the refusals that are remembered. Default 65 536, rounded
	// up to a power of two; -1 remembers none.
	DenyEntries int
	// LeaseGlobal treats every charge of a RowGlobal as leased, and refusals as ones
	// whose tokens may come back: for a store whose draws touch several shards.
	LeaseGlobal bool
	// Replicas is the number of live replicas as last known: for a fallback of
	// `share`, where the larger of it and Request.Expected counts, and for the size
	// of slices. It is asked often and must not block. Default: 1.
	Replicas func() int
	// Cause names the cause of a store's error in one word, for Decision.Cause and
	// incidents. Default: "unavailable".
	Cause func(error) string
	// OnIncident is told of each incident when it begins (End is zero) and when
	// it has ended. It must not block.
	OnIncident func(Incident)
	// OnRelease is told of leases that the store was asked to end, those of others
	// included, and when it did, by its clock in Unix µs. It must not block.
	OnRelease func(leases []Lease, atMicros int64)
	// OnModeChange is told when decisions begin (true) or cease (false) to be
	// made without the store. Calls come one at a time and in order, from
	// whatever goroutine caused the change; it must not block.
	OnModeChange func(degraded bool)
}

// Limiter decides requests. It is safe for concurrent use. Run must be running:
// without it a limiter that stopped asking its store never asks it again, leases are
// not renewed and slices not given back.
type Limiter struct {
	cfg        Config
	clock      clock
	storeClock storeClock
	breaker    *breaker
	fallback   *fallback
	denied     *denied
	slices     *sliceSet
	keeper     *keeper
	incidents  *incidents
	counts     counts
	opened     chan struct{} // capacity 1: tells Run that the breaker opened

	notifyMu sync.Mutex
	notified bool // the mode last told to OnModeChange
}

// New makes a Limiter, or returns an error that lists every problem of cfg.
func New(cfg Config) (*Limiter, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("limiter configuration: %w", err)
	}
	cfg.fillDefaults()
	clk := clock{now: cfg.Now, base: cfg.Now()}
	return &Limiter{
		cfg:       cfg,
		clock:     clk,
		breaker:   newBreaker(cfg.Breaker, clk.micros, cfg.Jitter),
		fallback:  newFallback(cfg.FallbackEntries),
		denied:    newDenied(cfg.DenyEntries),
		slices:    newSlices(),
		keeper:    newKeeper(),
		incidents: newIncidents(cfg.OnIncident),
		opened:    make(chan struct{}, 1),
	}, nil
}

func (c *Config) check() error {
	var problems []error
	if c.Store == nil {
		problems = append(problems, errors.New("Config.Store is missing"))
	}
	if c.Budget < 0 {
		problems = append(problems, fmt.Errorf("Config.Budget is negative: %v", c.Budget))
	}
	if c.FallbackEntries < 0 {
		problems = append(problems, fmt.Errorf("Config.FallbackEntries is negative: %d", c.FallbackEntries))
	}
	if c.DenyEntries < -1 || c.DenyEntries > maxDenyEntries {
		problems = append(problems, fmt.Errorf("Config.DenyEntries is not in -1..%d: %d", maxDenyEntries, c.DenyEntries))
	}
	return errors.Join(append(problems, c.Breaker.problems()...)...)
}

func (c *Config) fillDefaults() {
	if c.Budget == 0 {
		c.Budget = DefaultBudget
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.FallbackEntries == 0 {
		c.FallbackEntries = DefaultFallbackEntries
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	if c.DenyEntries == 0 {
		c.DenyEntries = DefaultDenyEntries
	}
	if c.Replicas == nil {
		c.Replicas = func() int { return 1 }
	}
	if c.Cause == nil {
		c.Cause = func(error) string { return "unavailable" }
	}
	if c.OnIncident == nil {
		c.OnIncident = func(Incident) {}
	}
	if c.OnRelease == nil {
		c.OnRelease = func([]Lease, int64) {}
	}
	if c.OnModeChange == nil {
		c.OnModeChange = func(bool) {}
	}
	c.Breaker.fillDefaults()
}

// clock counts µs since 1970 by a monotonic clock where there is one, so that a
// step of the wall clock neither refills a fallback nor holds a breaker open.
type clock struct {
	now  func() time.Time
	base time.Time
}

func (c clock) micros() int64 {
	return c.base.UnixMicro() + c.now().Sub(c.base).Microseconds()
}

// Degraded reports whether the store is not being asked at present.
func (l *Limiter) Degraded() bool { return l.breaker.state() != breakerClosed }

// BreakerState is "closed", "open" or "half-open".
func (l *Limiter) BreakerState() string { return l.breaker.state().String() }

// Run does what a Limiter does in the background: it probes the store while the
// breaker is open, renews leases, gives slices back and ends incidents. It returns
// ctx's error when ctx ends, after giving back all slices.
func (l *Limiter) Run(ctx context.Context) error {
	l.slices.setClosed(false)
	var wg sync.WaitGroup
	for _, loop := range []func(context.Context) error{l.keepLeases, l.sweepSlices, l.watchIncidents} {
		wg.Go(func() { _ = loop(ctx) }) // each ends with ctx's error
	}
	err := l.keepProbing(ctx)
	wg.Wait()
	l.drain(ctx)
	return err
}

func (l *Limiter) keepProbing(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.opened:
		}
		if err := l.probeUntilClosed(ctx); err != nil {
			return err
		}
	}
}

func (l *Limiter) probeUntilClosed(ctx context.Context) error {
	for {
		wait, open := l.breaker.untilProbe()
		if !open {
			return nil
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		l.probe(ctx)
	}
}

// probe is the breaker's one half-open attempt.
func (l *Limiter) probe(ctx context.Context) {
	if !l.breaker.beginProbe() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Budget)
	defer cancel()
	l.breaker.endProbe(l.cfg.Store.Ping(ctx) == nil)
	l.notify()
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// notify tells OnModeChange the mode if it is not the one told last.
func (l *Limiter) notify() {
	l.notifyMu.Lock()
	defer l.notifyMu.Unlock()
	if now := l.Degraded(); now != l.notified {
		l.notified = now
		l.cfg.OnModeChange(now)
	}
}
