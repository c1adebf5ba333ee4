package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
	"github.com/headgate/headgate/policy"
)

// closed admits nothing when the store fails, so that a failure shows in a test.
var closed = policy.StoreFailure{Mode: policy.FailClosed}

// world is a limiter on one kind of store, with a clock that stands still.
type world struct {
	*limiter.Limiter
	t     *testing.T
	store limiter.Store
	clock *storetest.Manual
	redis bool
}

// onBothStores runs a case on the memory store and on Redis.
func onBothStores(t *testing.T, test func(t *testing.T, w world)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		clock := storetest.NewManual()
		test(t, newWorld(t, memstore.New(clock.Time), clock))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		clock := storetest.NewManual()
		w := newWorld(t, redisstore.NewVirtual(patient(t, testkit.RedisURL(t)), options, clock.Now), clock)
		w.redis = true
		test(t, w)
	})
}

func newWorld(t *testing.T, store limiter.Store, clock *storetest.Manual) world {
	t.Helper()
	return world{limiterOn(t, store, clock.Time), t, store, clock, false}
}

// limiterOn has a budget for a busy test machine.
func limiterOn(t testing.TB, store limiter.Store, now func() time.Time) *limiter.Limiter {
	t.Helper()
	l, err := limiter.New(limiter.Config{Store: store, Now: now, Budget: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// at sets the clock to d after noon.
func (w world) at(d time.Duration) {
	w.clock.Advance(storetest.NewManual().Time().Add(d).Sub(w.clock.Time()))
}

// rate is tokens per period with a burst, as a policy says it.
func rate(t testing.TB, tokens int64, period time.Duration, burst int64) policy.Numbers {
	t.Helper()
	n, err := policy.NumbersOf(policy.Rate{Tokens: tokens, Period: period}, burst)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// draw charges one limit of the tenant ten_a.
func (w world) draw(limit string, n policy.Numbers, cost int64) limiter.Decision {
	w.t.Helper()
	return w.all(storetest.Draw(storetest.Tenant("ten_a"), limit, n, cost))
}

func (w world) all(charges ...limiter.Charge) limiter.Decision {
	w.t.Helper()
	d := w.Decide(context.Background(), limiter.Request{Route: "r", Draw: limiter.Draw{Charges: charges}, Fail: closed})
	if d.Degraded {
		w.t.Fatalf("the store failed: %+v", d)
	}
	return d
}

// admitted makes calls of cost 1 and counts those that pass.
func (w world) admitted(calls int, n policy.Numbers) int {
	w.t.Helper()
	passed := 0
	for range calls {
		if w.draw("l", n, 1).Allowed {
			passed++
		}
	}
	return passed
}

// refusedFor wants a refusal with that Retry-After.
func (w world) refusedFor(what string, d limiter.Decision, seconds int64) {
	w.t.Helper()
	if d.Allowed || d.Reason != limiter.ReasonLimit || d.RetryAfterSeconds() != seconds {
		w.t.Errorf("%s: %+v, want a refusal for %d s", what, d, seconds)
	}
}

// passed wants an admission with that many whole tokens left.
func (w world) passed(what string, d limiter.Decision, n policy.Numbers, remaining int64) {
	w.t.Helper()
	if !d.Allowed || d.Levels[0].Remaining(n) != remaining {
		w.t.Errorf("%s: %+v, want an admission with %d left", what, d, remaining)
	}
}
