package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// perSecond are the numbers of n tokens a second.
func perSecond(n, burst int64) policy.Numbers {
	return policy.Numbers{Tokens: n, Period: 1_000_000, Burst: burst}
}

func frozenClock(t *testing.T, s limiter.Store, _ Clock) {
	const callers, each, burst = 40, 5, 100
	n := perSecond(1, burst)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				out, err := s.Take(context.Background(), &limiter.Draw{Charges: []limiter.Charge{Draw(Tenant("ten_a"), "l", n, 1)}})
				if err != nil {
					t.Error(err)
				}
				if out.Admitted {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got := admitted.Load(); got != burst {
		t.Errorf("%d of %d admitted at one instant, want %d", got, callers*each, burst)
	}
}

func refusalSpendsNothing(t *testing.T, s limiter.Store, _ Clock) {
	wide, narrow := perSecond(1, 10), perSecond(1, 3)
	tenant, other := Tenant("ten_a"), Tenant("ten_b")
	for _, order := range []bool{false, true} {
		both := []limiter.Charge{Draw(tenant, "wide", wide, 1), Draw(other, "narrow", narrow, 1)}
		if order {
			tenant, other = Tenant("ten_c"), Tenant("ten_d")
			both = []limiter.Charge{Draw(other, "narrow", narrow, 1), Draw(tenant, "wide", wide, 1)}
		}
		admitted := 0
		for range 8 {
			if take(t, s, both...).Admitted {
				admitted++
			}
		}
		if admitted != 3 {
			t.Errorf("narrow first %t: %d admitted, want 3", order, admitted)
		}
		got := take(t, s, Draw(tenant, "wide", wide, 1))
		wants(t, "the wide limit afterwards", got, true, limiter.Level{Units: 6 * wide.Period})
	}
}

func raisedRateTakesEffect(t *testing.T, s limiter.Store, clock Clock) {
	slow := policy.Numbers{Tokens: 1, Period: 3_600_000_000, Burst: 1}
	fast := policy.Numbers{Tokens: 1, Period: 10_000, Burst: 100}
	row := Tenant("ten_a")
	take(t, s, Draw(row, "l", slow, 1))
	refused := take(t, s, Draw(row, "l", fast, 1))
	wants(t, "at the new rate", refused, false, limiter.Level{WaitMicros: 10_000})
	clock.Advance(10 * time.Millisecond)
	wants(t, "after the wait", take(t, s, Draw(row, "l", fast, 1)), true, limiter.Level{})
}

func carriesOver(t *testing.T, s limiter.Store, clock Clock) {
	row := Tenant("ten_a")
	old := policy.Numbers{Tokens: 1, Period: 3, Burst: 100}
	take(t, s, Draw(row, "l", old, 21))
	clock.Advance(2 * time.Microsecond) // 79 2/3 tokens
	next := policy.Numbers{Tokens: 1, Period: 7, Burst: 100}
	wants(t, "other period: 79 and 4/7 tokens", take(t, s, Draw(row, "l", next, 1)), true, limiter.Level{Units: 78*7 + 4})
	lower := policy.Numbers{Tokens: 1, Period: 7, Burst: 50}
	wants(t, "lower burst", take(t, s, Draw(row, "l", lower, 1)), true, limiter.Level{Units: 49 * 7})
	wants(t, "higher burst again", take(t, s, Draw(row, "l", next, 1)), true, limiter.Level{Units: 48 * 7})
}

func clockStepsBack(t *testing.T, s limiter.Store, clock Clock) {
	n, row := perSecond(1, 1), Tenant("ten_a")
	take(t, s, Draw(row, "l", n, 1))
	clock.Advance(-time.Minute)
	wants(t, "right after the step", take(t, s, Draw(row, "l", n, 1)), false, limiter.Level{WaitMicros: 1_000_000})
	clock.Advance(time.Second)
	wants(t, "one token's time later", take(t, s, Draw(row, "l", n, 1)), true, limiter.Level{})
}

func rowsAreApart(t *testing.T, s limiter.Store, _ Clock) {
	n := perSecond(1, 1)
	for _, row := range []limiter.Row{
		Tenant("ten_a"), Tenant("ten_b"), {Kind: limiter.RowGlobal},
		{Kind: limiter.RowCredential, Tenant: "ten_a", Subject: "crd_1"},
		{Kind: limiter.RowCredential, Tenant: "ten_a", Subject: "crd_2"},
		{Kind: limiter.RowCredential, Tenant: "ten_b", Subject: "crd_1"},
		{Kind: limiter.RowIP, Subject: "192.0.2.1"}, {Kind: limiter.RowIP, Subject: "192.0.2.2"},
	} {
		if !take(t, s, Draw(row, "l", n, 1)).Admitted {
			t.Errorf("%+v shares a bucket with a row before it", row)
		}
		if take(t, s, Draw(row, "l", n, 1)).Admitted {
			t.Errorf("%+v is not counted", row)
		}
	}
}

func limitsAreApart(t *testing.T, s limiter.Store, _ Clock) {
	n, row := perSecond(1, 2), Tenant("ten_a")
	take(t, s, Draw(row, "one", n, 2), Draw(row, "two", n, 1))
	wants(t, "one", take(t, s, Draw(row, "one", n, 1)), false, limiter.Level{WaitMicros: 1_000_000})
	wants(t, "two", take(t, s, Draw(row, "two", n, 1)), true, limiter.Level{})
	wants(t, "three", take(t, s, Draw(row, "three", n, 2)), true, limiter.Level{})
}

func largestNumbers(t *testing.T, s limiter.Store, clock Clock) {
	row := Tenant("ten_a")
	n := policy.Numbers{Tokens: 1, Period: 127, Burst: (policy.MaxUnits - 2) / 127}
	full := n.Full()
	wants(t, "all but two tokens", take(t, s, Draw(row, "l", n, n.Burst-2)), true, limiter.Level{Units: 254})
	clock.Advance(time.Microsecond)
	wants(t, "to the unit", take(t, s, Draw(row, "l", n, 2)), true, limiter.Level{Units: 1})
	wants(t, "the wait for all", take(t, s, Draw(row, "l", n, n.Burst)), false,
		limiter.Level{Units: 1, WaitMicros: full - 1})
	fast := policy.Numbers{Tokens: 1_000_000_000, Period: 1_000_000, Burst: 1_000_000_000}
	take(t, s, Draw(row, "fast", fast, fast.Burst))
	for idle := range 11 { // hours, then ten years in all
		clock.Advance(time.Duration(idle) * 365 * 24 * time.Hour)
		if out := take(t, s, Draw(row, "fast", fast, 1)); !out.Admitted && idle > 0 {
			t.Fatalf("refused after %d idle years: %+v", idle, out)
		}
	}
}
