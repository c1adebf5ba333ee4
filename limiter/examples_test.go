package limiter_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
)

// TestDecide_WithoutACacheIsTheStoresAnswer: on random draws the decision says what the
// store says, part by part.
func TestDecide_WithoutACacheIsTheStoresAnswer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, func(c *limiter.Config) { c.DenyEntries = -1 })
		bare := memstore.New(r.clock.Time)
		for i := range rapid.IntRange(1, 40).Draw(rt, "requests") {
			row := tenant(fmt.Sprint("ten_", rapid.IntRange(0, 1).Draw(rt, "tenant")))
			draw := limiter.Draw{
				Charges: []limiter.Charge{charge(row, "a", perSecond(9), rapid.Int64Range(1, 4).Draw(rt, "cost")), charge(row, "b", perSecond(5), 1)},
				Slots:   []limiter.Slot{slotOf(row, 4, i)},
				Quotas:  []limiter.Quota{quotaOf(row, 1000, rapid.Int64Range(1, 4).Draw(rt, "units"), 30)},
			}
			draw.Charges[1].Shadow = rapid.Bool().Draw(rt, "shadow limit")
			draw.Slots[0].Shadow = rapid.Bool().Draw(rt, "shadow place")
			draw.Quotas[0].Shadow, draw.Quotas[0].End = rapid.Bool().Draw(rt, "shadow quota"), 0
			want, err := bare.Take(context.Background(), &draw)
			if err != nil {
				rt.Fatal(err)
			}
			got := r.decide(limiter.Request{Fail: closed, Draw: draw})
			if got.Allowed != want.Admitted || fmt.Sprint(got.Levels, got.Slots, got.Quotas) != fmt.Sprint(want.Levels, want.Slots, want.Quotas) {
				rt.Fatalf("decision %+v, store %+v", got, want)
			}
			if got.Allowed != (got.Deciding == -1) || got.Allowed != (got.DecidingKind == limiter.PartNone) || got.Allowed != (got.Reason == limiter.ReasonAdmitted) {
				rt.Fatalf("the decision contradicts itself: %+v", got)
			}
			r.clock.Advance(time.Duration(rapid.Int64Range(0, 900_000).Draw(rt, "step")) * time.Microsecond)
		}
	})
}

func TestBucket_CorrectionsByExample(t *testing.T) {
	t.Parallel()
	n := policy.Numbers{Tokens: 2, Period: 10, Burst: 5} // a token every 5 µs
	for _, c := range []struct {
		name               string
		units, at, tokens  int64
		want, wantAfter100 int64
	}{
		{"given back", 10, 0, 2, 30, 50},
		{"given back beyond the burst", 40, 0, 3, 50, 50},
		{"given back to a full one", 50, 0, 1, 50, 50},
		{"charged within the level", 40, 0, -3, 10, 50},
		{"charged into debt", 10, 0, -30, -290, -90},
		{"refilled first", 10, 10, -1, 20, 50},
		{"nothing", 10, 5, 0, 20, 50},
		{"paid back out of a debt", -100, 0, 4, -60, 50},
	} {
		b := limiter.Bucket{Numbers: n, Units: c.units}.Amend(c.at, c.tokens)
		if b.Units != c.want {
			t.Errorf("%s: %d units, want %d", c.name, b.Units, c.want)
		}
		if later := b.Advance(c.at+100, n); later.Units != c.wantAfter100 {
			t.Errorf("%s: %d units after 100 µs, want %d", c.name, later.Units, c.wantAfter100)
		}
	}
}

func TestBucket_ADebtIsBoundedSoThatItIsCountedExactly(t *testing.T) {
	t.Parallel()
	for _, n := range []policy.Numbers{perSecond(1), perMilli(1000, 1<<40), {Tokens: 1, Period: policy.MaxPeriod.Microseconds(), Burst: 3000}} {
		b := limiter.FullBucket(0, n).Amend(0, -policy.MaxUnits+1)
		if b.Units < -limiter.MaxDebt(n) || n.Full()-b.Units+n.Tokens >= policy.MaxUnits {
			t.Errorf("%+v: %d units", n, b.Units)
		}
		if again := b.Amend(0, -1000); again.Units < -limiter.MaxDebt(n) {
			t.Errorf("%+v: charged again, %d units", n, again.Units)
		}
	}
}

func TestIdentifierNumbers_ByExample(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		limit  policy.Numbers
		most   int64
		burst  int64
		within time.Duration // in which the other half comes back
	}{
		{"five a minute", policy.Numbers{Tokens: 1, Period: 12_000_000, Burst: 5}, 10_000, 5000, 61 * time.Second},
		{"a thousand a second", policy.Numbers{Tokens: 1, Period: 1000, Burst: 1000}, 10_000, 5000, 2 * time.Second},
		{"one a day", policy.Numbers{Tokens: 1, Period: 86_400_000_000, Burst: 1}, 1_000_000, 500_000, 24*time.Hour + time.Second},
		{"one identifier", perSecond(9), 1, 1, 10 * time.Second},
	} {
		got := limiter.IdentifierNumbers(c.limit, c.most)
		back := got.Tokens * c.within.Microseconds() / got.Period
		if got.Burst != c.burst || back > c.burst || back < c.burst*99/100 {
			t.Errorf("%s: %+v brings %d in %v, want %d", c.name, got, back, c.within, c.burst)
		}
	}
}

// TestShare_TableIsBoundedAndNewcomersShareOneBucketPerLimit.
func TestShare_TableIsBoundedAndNewcomersShareOneBucketPerLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *limiter.Config) { c.FallbackEntries = 10 })
	r.fail(5)
	admitted := 0
	for i := range 500 {
		if r.decide(each(shared, charge(tenant(fmt.Sprint("ten_", i)), "plan.requests", perSecond(2), 1))).Allowed {
			admitted++
		}
	}
	if admitted != 10+2 || r.FallbackSize() != 10 {
		t.Errorf("%d admitted, %d buckets; want 12 and 10", admitted, r.FallbackSize())
	}
	if !r.decide(each(shared, charge(tenant("ten_new"), "other", perSecond(2), 1))).Allowed {
		t.Error("another limit has no bucket of its own")
	}
}

// TestShare_SurvivesFlaps: a store that comes and goes hands out no fresh share.
func TestShare_SurvivesFlaps(t *testing.T) {
	t.Parallel()
	r := newRig(t, replicas(2))
	admitted := 0
	for range 10 {
		r.fail(5)
		for range 5 {
			if r.decide(each(shared, charge(tenant("ten_b"), "l", perSecond(8), 1))).Allowed {
				admitted++
			}
		}
		r.store.set(nil)
		r.clock.Advance(250 * time.Millisecond)
		r.Probe()
	}
	if admitted != 4+1 { // half the burst, and 2.25 s at half a token a second
		t.Errorf("%d admitted over ten outages, want 5", admitted)
	}
}

// TestSettle_OfALeasedLimitCorrectsItsBucket, whichever slice paid.
func TestSettle_OfALeasedLimitCorrectsItsBucket(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1, policy.Numbers{Tokens: 1, Period: 50_000, Burst: 100_000})
	c.heat(t, 0)
	l := c.replicas[0]
	req := c.request(1)
	d := l.Decide(context.Background(), req)
	if !d.Levels[0].Unknown {
		t.Fatal("not paid from a slice")
	}
	before := c.level(t)
	spent := d.Spent(&req.Draw)
	if err := l.Settle(context.Background(), "s", &spent, 500); err != nil {
		t.Fatal(err)
	}
	if got := c.level(t); got != before-500 {
		t.Errorf("%d tokens after charging 500 more, %d before", got, before)
	}
}

// TestDenied_IsSafeWhileEverythingChanges: callers, and records that change, at once; what
// the cache refuses still keeps every caller within the burst.
func TestDenied_IsSafeWhileEverythingChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *limiter.Config) { c.DenyEntries = 64 })
	var wg sync.WaitGroup
	var mu sync.Mutex
	admitted := map[string]int{}
	for worker := range 8 {
		wg.Go(func() {
			for i := range 500 {
				id := fmt.Sprint("ten_", (i+worker)%100)
				if r.decide(each(closed, charge(tenant(id), "l", perSecond(3), 1))).Allowed {
					mu.Lock()
					admitted[id]++
					mu.Unlock()
				}
				switch i % 50 {
				case 7:
					r.Forget(id)
				case 31:
					r.ForgetAll()
				}
			}
		})
	}
	wg.Wait()
	if len(admitted) != 100 {
		t.Errorf("%d tenants admitted, want 100", len(admitted))
	}
	for id, n := range admitted {
		if n != 3 { // on a clock that stands still
			t.Errorf("%s: %d admitted, want 3", id, n)
		}
	}
}

// TestDenied_RowsWithoutATenantAreApart: addresses and the global row.
func TestDenied_RowsWithoutATenantAreApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rows := []limiter.Row{
		{Kind: limiter.RowIP, Subject: "192.0.2.1"}, {Kind: limiter.RowIP, Subject: "192.0.2.2"},
		{Kind: limiter.RowDimension, Subject: "192.0.2.1"}, {Kind: limiter.RowGlobal},
		{Kind: limiter.RowDimension, Tenant: "ten_a", Subject: "192.0.2.1"}, {Kind: limiter.RowCredential, Tenant: "ten_a", Subject: "192.0.2.1"},
	}
	for i, row := range rows {
		ask := func() limiter.Decision { return r.decide(each(closed, charge(row, "l", perSecond(1), 1))) }
		if d := ask(); !d.Allowed || d.Cached {
			t.Errorf("row %d shares what is known of another: %+v", i, d)
		}
		if !ask().Cached {
			t.Errorf("row %d is not remembered", i)
		}
	}
	r.Forget("ten_a")
	kept := 0
	for i, row := range rows {
		d := r.decide(each(closed, charge(row, "l", perSecond(1), 1)))
		if d.Cached && row.Tenant != "" {
			t.Errorf("row %d after its tenant was forgotten: %+v", i, d)
		}
		if d.Cached {
			kept++
		}
	}
	if kept < 2 { // of four: one subject, which two have, may lie in the tenant's group by chance
		t.Errorf("%d rows are still remembered that are not the tenant's", kept)
	}
}

// TestDenied_QuotaPeriodsAreApart: a new period is not refused for the old one.
func TestDenied_QuotaPeriodsAreApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ask := func(start int64) limiter.Decision {
		q := quotaOf(tenant("ten_a"), start, 1, 1)
		return r.decide(limiter.Request{Fail: closed, Draw: limiter.Draw{Quotas: []limiter.Quota{q}}})
	}
	now := r.clock.Now()
	ask(now)
	ask(now)
	if !ask(now).Cached {
		t.Fatal("not remembered")
	}
	if d := ask(now + 60_000_000); !d.Allowed {
		t.Errorf("the next period: %+v", d)
	}
}

// TestIncidents_ConcurrentDecisionsAreAllCounted.
func TestIncidents_ConcurrentDecisionsAreAllCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fail(5)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			req := request(unlimited)
			req.Route = fmt.Sprint("route-", worker%2)
			for range 250 {
				r.decide(req)
			}
		})
	}
	wg.Wait()
	routes := r.Incidents()[0].Routes
	if routes["route-0"].Admitted != 1000 || routes["route-1"].Admitted != 1000 || routes["r"].Admitted != 5 {
		t.Errorf("%+v", routes)
	}
}
