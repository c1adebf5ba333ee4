package limiter_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
)

var errDown = fmt.Errorf("%w: down", limiter.ErrStore)

// fakeStore answers from memory until it is told to fail.
type fakeStore struct {
	*memstore.Store
	mu           sync.Mutex
	down         error
	answer       *limiter.Outcome // instead of the memory's, when set
	takes, pings int
}

func (s *fakeStore) set(down error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *fakeStore) asked() (takes, pings int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takes, s.pings
}

func (s *fakeStore) Take(ctx context.Context, charges *limiter.Draw) (limiter.Outcome, error) {
	s.mu.Lock()
	s.takes++
	down, answer := s.down, s.answer
	s.mu.Unlock()
	if down != nil {
		return limiter.Outcome{}, down
	}
	if answer != nil {
		return *answer, nil
	}
	return s.Store.Take(ctx, charges)
}

func (s *fakeStore) Ping(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pings++
	return s.down
}

// rig is a limiter on a fake store and a clock that stands still.
type rig struct {
	*limiter.Limiter
	store *fakeStore
	clock *manual
}

func newRig(t testing.TB, edit func(*limiter.Config)) rig {
	t.Helper()
	clock := newManual()
	store := &fakeStore{Store: memstore.New(clock.Time)}
	cfg := limiter.Config{Store: store, Now: clock.Time, Budget: time.Minute, Jitter: func() float64 { return 0.5 }}
	if edit != nil {
		edit(&cfg)
	}
	l, err := limiter.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rig{l, store, clock}
}

var (
	closed    = policy.StoreFailure{Mode: policy.FailClosed}
	unlimited = policy.StoreFailure{Mode: policy.FailOpen, Fallback: &policy.Fallback{Unlimited: true}}
)

// within is an open fail mode with a fallback of n a second and that burst.
func within(n, burst int64) policy.StoreFailure {
	rate := policy.Rate{Tokens: n, Period: time.Second}
	return policy.StoreFailure{Mode: policy.FailOpen, Fallback: &policy.Fallback{Rate: rate, Burst: burst}}
}

// request draws one token of a limit of a thousand a second.
func request(fail policy.StoreFailure) limiter.Request {
	n := policy.Numbers{Tokens: 1, Period: 1000, Burst: 1000}
	return limiter.Request{
		Route: "r", Identity: "ten_a", Fail: fail,
		Draw: limiter.Draw{Charges: []limiter.Charge{charge(tenant("ten_a"), "l", n, 1)}},
	}
}

func (r rig) decide(req limiter.Request) limiter.Decision {
	return r.Decide(context.Background(), req)
}

// fail makes n calls against a store that is down.
func (r rig) fail(n int) {
	r.store.set(errDown)
	for range n {
		r.decide(request(unlimited))
	}
}
