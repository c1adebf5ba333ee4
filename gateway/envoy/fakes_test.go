package envoy

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/usage"
)

// fakePolicies serves one snapshot.
type fakePolicies struct{ snap *feed.Snapshot }

func (f *fakePolicies) Current() *feed.Snapshot       { return f.snap }
func (f *fakePolicies) Status() feed.Status           { return feed.Status{StampAge: -1} }
func (f *fakePolicies) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// fakeDirectory knows what it was told.
type fakeDirectory struct {
	mu      sync.Mutex
	keys    map[string]policy.KeyRecord
	tenants map[string]policy.TenantRecord
	err     error
}

func (f *fakeDirectory) Key(_ context.Context, kid string) (policy.KeyRecord, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k, ok := f.keys[kid]; ok || f.err != nil {
		return k, f.err
	}
	return policy.KeyRecord{}, feed.ErrUnknown
}

func (f *fakeDirectory) Tenant(_ context.Context, id string) (policy.TenantRecord, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k, ok := f.tenants[id]; ok || f.err != nil {
		return k, f.err
	}
	return policy.TenantRecord{}, feed.ErrUnknown
}

func (f *fakeDirectory) Place() policy.Place           { return policy.Place{Epoch: "e", Seq: 1} }
func (f *fakeDirectory) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (f *fakeDirectory) fail(err error) { f.mu.Lock(); defer f.mu.Unlock(); f.err = err }

// fakeReporter swallows what it is sent.
type fakeReporter struct{}

func (fakeReporter) Beat(context.Context, policy.Heartbeat) (int, time.Time, error) {
	return 1, time.Now(), nil
}
func (fakeReporter) SendUsage(context.Context, usage.Batch) error { return nil }

// testStore counts its calls, and fails or waits where it is told to.
type testStore struct {
	limiter.Store
	mu       sync.Mutex
	broken   bool
	wait     chan struct{} // Take waits for it, or for the end of its context
	calls    int
	deadline time.Duration // left when Take was last called
	begun    chan struct{} // told of each Take while wait is set
}

func (s *testStore) Take(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	s.mu.Lock()
	s.calls++
	broken, wait := s.broken, s.wait
	if at, ok := ctx.Deadline(); ok {
		s.deadline = time.Until(at)
	}
	s.mu.Unlock()
	if broken {
		return limiter.Outcome{}, limiter.ErrStore
	}
	if wait != nil {
		s.begun <- struct{}{}
		select {
		case <-wait:
		case <-ctx.Done():
			return limiter.Outcome{}, errors.Join(limiter.ErrStore, ctx.Err())
		}
	}
	return s.Store.Take(ctx, d)
}

func (s *testStore) set(do func(*testStore)) { s.mu.Lock(); defer s.mu.Unlock(); do(s) }

// clock stands still until it is advanced.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *clock) advance(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

// fakeDecider answers as it is told.
type fakeDecider struct {
	decide  func(ctx context.Context, in *gateway.Inbound) gateway.Verdict
	mayAsk  func(netip.Addr, string) bool
	unready func() []string
}

func (f *fakeDecider) DecideInto(ctx context.Context, in *gateway.Inbound, v *gateway.Verdict) {
	*v = gateway.Verdict{Allowed: true, Status: http.StatusOK, Deciding: -1}
	if f.decide != nil {
		*v = f.decide(ctx, in)
	}
}

func (*fakeDecider) Answer(v *gateway.Verdict, _ string, _ bool) gateway.Answer {
	return gateway.Answer{Status: v.Status, Header: http.Header{}}
}

func (*fakeDecider) WriteFields(gateway.FieldSink, *gateway.Verdict, string, bool) {}

func (f *fakeDecider) MayAsk(peer netip.Addr, token string) bool {
	return f.mayAsk == nil || f.mayAsk(peer, token)
}

func (f *fakeDecider) Unready() []string {
	if f.unready == nil {
		return nil
	}
	return f.unready()
}
