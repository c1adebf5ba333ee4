package storetest

import (
	"fmt"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func bucketParts() []part {
	return []part{
		{"I01_AdmitsNoMoreThanBurstPlusRefill", boundHolds},
		{"I13_WaitIsExact", waitIsExact},
		{"R021_FrozenClockAdmitsExactlyTheBurst", frozenClock},
		{"RowsAreApart", rowsAreApart},
		{"LimitsOfOneRowAreApart", limitsAreApart},
		{"ExtraIsWhatIsThere", extraIsWhatIsThere},
		{"NothingIsAdmitted", nothingIsAdmitted},
	}
}

// boundHolds: over any interval a caller gets at most burst + rate×time, its
// slices included.
func boundHolds(t *testing.T, w World) {
	subject := 0
	rapid.Check(t, func(rt *rapid.T) {
		subject++
		n := anyNumbers(rt)
		row := Tenant(fmt.Sprintf("bound-%d", subject))
		defer rewind(w.Clock)()
		type grant struct{ at, cost int64 }
		var grants []grant
		for i := range 40 {
			w.Clock.Advance(time.Duration(rapid.Int64Range(0, 3*n.Period/n.Tokens+2).Draw(rt, "pause")) * time.Microsecond)
			charge := Draw(row, "l", n, min(n.Burst, rapid.Int64Range(1, 3).Draw(rt, "cost")))
			charge.Extra = max(0, rapid.Int64Range(-3, 3).Draw(rt, "extra"))
			out := w.take(t, charge)
			if out.Admitted {
				grants = append(grants, grant{out.NowMicros, charge.Cost + out.Levels[0].Extra})
			}
			if i == 0 && !out.Admitted {
				rt.Fatal("a fresh bucket refused")
			}
		}
		for from := range grants {
			sum := int64(0)
			for _, g := range grants[from:] {
				sum += g.cost
				refill := product(g.at-grants[from].at, n.Tokens)
				if bound := refill.Div(refill, big.NewInt(n.Period)).Int64() + n.Burst; sum > bound {
					rt.Fatalf("%+v: admitted %d over %d µs, at most %d", n, sum, g.at-grants[from].at, bound)
				}
			}
		}
	})
}

// waitIsExact: after a refusal the same request is refused 1 µs before the wait
// is over and admitted when it is.
func waitIsExact(t *testing.T, w World) {
	subject := 0
	rapid.Check(t, func(rt *rapid.T) {
		subject++
		row := Tenant(fmt.Sprintf("wait-%d", subject))
		defer rewind(w.Clock)()
		var charges []limiter.Charge
		for i := range rapid.IntRange(1, 3).Draw(rt, "limits") {
			n := anyNumbers(rt)
			charges = append(charges, Draw(row, someLimits[i], n, rapid.Int64Range(1, n.Burst).Draw(rt, "cost")))
		}
		if rapid.Bool().Draw(rt, "in debt") {
			c := charges[0]
			owed := rapid.Int64Range(1, 2*c.Numbers.Burst).Draw(rt, "owed")
			w.amend(t, "", limiter.Amendment{Row: row, Hash: c.Hash, Numbers: c.Numbers, Tokens: -owed})
		}
		var wait int64
		for tries := 0; wait == 0 && tries < 64; tries++ {
			wait = largestWait(w.take(t, charges...))
		}
		if wait == 0 || wait > 1e15 {
			return // a large burst against a small cost: nothing was refused
		}
		w.Clock.Advance(time.Duration(wait-1) * time.Microsecond)
		early := w.take(t, charges...)
		w.Clock.Advance(time.Microsecond)
		due := w.take(t, charges...)
		if early.Admitted || largestWait(early) != 1 || !due.Admitted {
			rt.Fatalf("%+v: wait %d µs: 1 µs early %+v, then %+v", charges, wait, early, due)
		}
	})
}

// crowd makes calls of cost 1 from many goroutines over several clients and
// counts those that pass.
func (w World) crowd(t *testing.T, clients, callers, each int, charge limiter.Charge) (admitted int64) {
	t.Helper()
	stores := []limiter.Store{w.Store}
	for len(stores) < clients {
		stores = append(stores, w.another())
	}
	var passed atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range each {
				out, err := stores[i%clients].Take(t.Context(), &limiter.Draw{Charges: []limiter.Charge{charge}})
				if err != nil {
					t.Errorf("take: %v", err)
				}
				if out.Admitted {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return passed.Load()
}

func frozenClock(t *testing.T, w World) {
	n := perSecond(1, 100)
	for run := range 20 {
		row := Tenant(fmt.Sprint("ten_", run))
		if got := w.crowd(t, 3, 50, 5, Draw(row, "l", n, 1)); got != 100 {
			t.Errorf("run %d: %d of 250 admitted at one instant, want 100", run, got)
		}
	}
}

func rowsAreApart(t *testing.T, w World) {
	n := perSecond(1, 1)
	for _, row := range []limiter.Row{
		Tenant("ten_a"), Tenant("ten_b"), {Kind: limiter.RowGlobal},
		{Kind: limiter.RowCredential, Tenant: "ten_a", Subject: "crd_1"},
		{Kind: limiter.RowCredential, Tenant: "ten_a", Subject: "crd_2"},
		{Kind: limiter.RowCredential, Tenant: "ten_b", Subject: "crd_1"},
		{Kind: limiter.RowIP, Subject: "192.0.2.1"}, {Kind: limiter.RowIP, Subject: "192.0.2.2"},
		inTenant("ten_a", "u"), inTenant("ten_b", "u"), inTenant("", "u"), inTenant("ten_a", "v"), inTenant("ten_a", ""),
		inTenant("ten_a", "crd_1"), inTenant("", "192.0.2.1"), inTenant("", "ten_au"), inTenant("ten_a", "u\x00v"), inTenant("ten_a", "u:v"),
		inTenant("ten_a:u", "v"),
	} {
		if !w.take(t, Draw(row, "l", n, 1)).Admitted {
			t.Errorf("%+v shares a bucket with a row before it", row)
		}
		if w.take(t, Draw(row, "l", n, 1)).Admitted {
			t.Errorf("%+v is not counted", row)
		}
	}
}

func limitsAreApart(t *testing.T, w World) {
	n, row := perSecond(1, 2), Tenant("ten_a")
	w.take(t, Draw(row, "one", n, 2), Draw(row, "two", n, 1))
	wants(t, "one", w.take(t, Draw(row, "one", n, 1)), false, limiter.Level{WaitMicros: 1_000_000})
	wants(t, "two", w.take(t, Draw(row, "two", n, 1)), true, limiter.Level{})
	wants(t, "three", w.take(t, Draw(row, "three", n, 2)), true, limiter.Level{})
}

func extraIsWhatIsThere(t *testing.T, w World) {
	n := policy.Numbers{Tokens: 1, Period: 10, Burst: 10}
	slice := func(cost, extra int64) limiter.Outcome {
		c := Draw(Tenant("ten_a"), "l", n, cost)
		c.Extra = extra
		return w.take(t, c)
	}
	wants(t, "3 and 4 of 10", slice(3, 4), true, limiter.Level{Units: 30, Extra: 4})
	w.Clock.Advance(5 * time.Microsecond)
	wants(t, "what is left, in whole tokens", slice(1, 1<<47), true, limiter.Level{Units: 5, Extra: 2})
	wants(t, "a refusal grants none", slice(1, 5), false, limiter.Level{Units: 5, WaitMicros: 5})
	w.Clock.Advance(5 * time.Microsecond)
	wants(t, "the cost comes first", slice(1, 5), true, limiter.Level{})
}

func nothingIsAdmitted(t *testing.T, w World) {
	if out := w.decide(t, limiter.Draw{}); !out.Admitted || out.NowMicros != w.Clock.Now() {
		t.Errorf("a draw of nothing: %+v, want it admitted at %d", out, w.Clock.Now())
	}
	w.amend(t, "id of nothing")
	w.release(t)
	if held := w.renew(t); len(held) != 0 {
		t.Errorf("no leases renewed as %v", held)
	}
}
