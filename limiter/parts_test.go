package limiter_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
)

func slotOf(row limiter.Row, max int64, i int) limiter.Slot {
	return lease(limiter.Slot{Row: row, LimitID: "route:r.concurrency", Hash: 77, Max: max, HoldMicros: 10_000_000}, i)
}

func quotaOf(row limiter.Row, now, cost, amount int64) limiter.Quota {
	return limiter.Quota{Row: row, LimitID: "plan.quota", Hash: 88, Start: now - 5, End: now + 60_000_000, Cost: cost, Amount: amount}
}

func TestDecide_AFullConcurrencyLimitSaysOneSecondAndNoMillis(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ask := func(i int) limiter.Decision {
		return r.decide(limiter.Request{Fail: closed, Draw: limiter.Draw{Slots: []limiter.Slot{slotOf(tenant("ten_a"), 1, i)}}})
	}
	d := ask(1)
	if !d.Allowed || len(d.Leases) != 1 || d.Leases[0].ID != "lease-0000000000000001" || d.Slots[0].Active != 1 {
		t.Fatalf("first: %+v", d)
	}
	d = ask(2)
	if d.Allowed || d.Reason != limiter.ReasonConcurrency || d.DecidingKind != limiter.PartSlot || d.Deciding != 0 || d.Leases != nil {
		t.Fatalf("second: %+v", d)
	}
	if d.RetryAfterSeconds() != 1 || d.RetryAfterMicros != 0 || d.RetryAfterMillis() != 0 {
		t.Errorf("wait %d s, %d ms", d.RetryAfterSeconds(), d.RetryAfterMillis())
	}
}

func TestDecide_TheLargestWaitDecidesOverAllParts(t *testing.T) {
	t.Parallel()
	row := tenant("ten_a")
	for _, c := range []struct {
		name           string
		limit, full    bool
		quota, forever bool
		kind           limiter.Part
		wait           int64
	}{
		{"limit over place", true, true, false, false, limiter.PartCharge, 1_000_000},
		{"quota over limit", true, true, true, false, limiter.PartQuota, 60_000_000},
		{"lifetime quota over all, with nothing to wait for", true, true, true, true, limiter.PartQuota, 0},
		{"a place alone", false, true, false, false, limiter.PartSlot, 0},
	} {
		r := newRig(t, func(c *limiter.Config) { c.DenyEntries = -1 })
		now := r.clock.Now()
		draw := func(i int) limiter.Draw {
			d := limiter.Draw{Charges: []limiter.Charge{charge(row, "l", perSecond(9), 1)}, Slots: []limiter.Slot{slotOf(row, 9, i)}, Quotas: []limiter.Quota{quotaOf(row, now, 1, 9)}}
			if c.limit {
				d.Charges[0].Numbers.Burst = 1
			}
			if c.full {
				d.Slots[0].Max = 1
			}
			if c.quota {
				d.Quotas[0].Amount = 1
			}
			if c.forever {
				d.Quotas[0].End = 0
			}
			return d
		}
		if d := r.decide(limiter.Request{Fail: closed, Draw: draw(1)}); !d.Allowed {
			t.Fatalf("%s: %+v", c.name, d)
		}
		d := r.decide(limiter.Request{Fail: closed, Draw: draw(2)})
		if d.Allowed || d.DecidingKind != c.kind || d.RetryAfterMicros != c.wait {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

// TestDecide_R009_R020_WhatCanNeverPassSaysSoWithoutAWait: a limit of 0 is blocked, a cost
// above what there can ever be is another thing, and neither asks the store.
func TestDecide_R009_R020_WhatCanNeverPassSaysSoWithoutAWait(t *testing.T) {
	t.Parallel()
	row := tenant("ten_a")
	bill := func(cost, amount, most int64) limiter.Quota {
		q := quotaOf(row, 1000, cost, amount)
		q.Bill, q.Most = true, most
		return q
	}
	for _, c := range []struct {
		name   string
		draw   limiter.Draw
		reason limiter.Reason
		kind   limiter.Part
	}{
		{"no places", limiter.Draw{Slots: []limiter.Slot{slotOf(row, 0, 1)}}, limiter.ReasonBlocked, limiter.PartSlot},
		{"quota of 0", limiter.Draw{Quotas: []limiter.Quota{quotaOf(row, 1000, 1, 0)}}, limiter.ReasonBlocked, limiter.PartQuota},
		{"cost above the quota", limiter.Draw{Quotas: []limiter.Quota{quotaOf(row, 1000, 11, 10)}}, limiter.ReasonCostExceedsBurst, limiter.PartQuota},
		{"cost above the most that is billed", limiter.Draw{Quotas: []limiter.Quota{bill(21, 10, 20)}}, limiter.ReasonCostExceedsBurst, limiter.PartQuota},
		{"blocked beside too costly", limiter.Draw{Charges: []limiter.Charge{charge(row, "l", perSecond(1), 2)}, Slots: []limiter.Slot{slotOf(row, 0, 1)}}, limiter.ReasonBlocked, limiter.PartSlot},
	} {
		r := newRig(t, nil)
		d := r.decide(limiter.Request{Fail: unlimited, Draw: c.draw})
		if d.Allowed || d.Reason != c.reason || d.DecidingKind != c.kind || d.RetryAfterSeconds() != 0 || r.takes() != 0 {
			t.Errorf("%s: %+v after %d calls", c.name, d, r.takes())
		}
	}
	r := newRig(t, nil)
	if d := r.decide(limiter.Request{Fail: closed, Draw: limiter.Draw{Quotas: []limiter.Quota{bill(1_000_000, 0, 0)}}}); !d.Allowed || !d.Quotas[0].Overage {
		t.Errorf("billed without a bound: %+v", d)
	}
}

// shadowed is the draw with every part a shadow.
func shadowed(d limiter.Draw) limiter.Draw {
	d = limiter.Draw{Charges: slices.Clone(d.Charges), Slots: slices.Clone(d.Slots), Quotas: slices.Clone(d.Quotas)}
	for i := range d.Charges {
		d.Charges[i].Shadow = true
	}
	for i := range d.Slots {
		d.Slots[i].Shadow = true
	}
	for i := range d.Quotas {
		d.Quotas[i].Shadow = true
	}
	return d
}

// shadowVerdict is what the shadows of an admitted decision would have done.
func shadowVerdict(d limiter.Decision) bool {
	for _, l := range d.Levels {
		if l.WaitMicros > 0 || l.Never {
			return false
		}
	}
	for _, s := range d.Slots {
		if s.Refused {
			return false
		}
	}
	for _, q := range d.Quotas {
		if q.Refused {
			return false
		}
	}
	return true
}

// TestDecide_I22_ShadowsTellWhatEnforcingWouldHaveDone: the same trace, all parts shadows
// in one world and enforced in the other, comes to the same verdicts, and no shadow
// refuses anything.
func TestDecide_I22_ShadowsTellWhatEnforcingWouldHaveDone(t *testing.T) {
	t.Parallel()
	refused := 0
	rapid.Check(t, func(rt *rapid.T) {
		enforce, shadow := newRig(t, nil), newRig(t, nil)
		for i := range rapid.IntRange(1, 40).Draw(rt, "requests") {
			row := tenant(fmt.Sprint("ten_", rapid.IntRange(0, 1).Draw(rt, "tenant")))
			draw := limiter.Draw{
				Charges: []limiter.Charge{
					charge(row, "a", perSecond(5), rapid.Int64Range(1, 6).Draw(rt, "cost")), // 6 of 5: never
					charge(row, "b", perSecond(3), 1),
				},
				Slots:  []limiter.Slot{slotOf(row, rapid.Int64Range(0, 3).Draw(rt, "places"), i)},
				Quotas: []limiter.Quota{quotaOf(row, 1000, rapid.Int64Range(1, 3).Draw(rt, "units"), 30)},
			}
			draw.Quotas[0].End = 0
			want := enforce.decide(limiter.Request{Fail: closed, Draw: draw})
			got := shadow.decide(limiter.Request{Fail: closed, Draw: shadowed(draw)})
			if !got.Allowed || got.Reason != limiter.ReasonAdmitted || got.Deciding != -1 {
				rt.Fatalf("a shadow refused: %+v", got)
			}
			if shadowVerdict(got) != want.Allowed || len(got.Leases) != len(want.Leases) {
				rt.Fatalf("enforced %+v, as a shadow %+v", want, got)
			}
			if !want.Allowed {
				refused++
			}
			step := time.Duration(rapid.Int64Range(0, 900_000).Draw(rt, "step")) * time.Microsecond
			enforce.clock.Advance(step)
			shadow.clock.Advance(step)
		}
	})
	if refused == 0 {
		t.Error("nothing was refused: the test says nothing")
	}
}

func TestDecide_AShadowThatCanNeverPayIsToldAndLeavesTheRestExact(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	row := tenant("ten_a")
	never, other := charge(row, "s", policy.Numbers{Period: 1, Burst: 5}, 1), charge(row, "t", perSecond(5), 1)
	never.Shadow, other.Shadow = true, true
	req := each(closed, never, charge(row, "l", perSecond(2), 1), other)
	d := r.decide(req)
	if !d.Allowed || !d.Levels[0].Never || !d.Levels[0].Unknown || d.Levels[1].Remaining(perSecond(2)) != 1 || !d.Levels[2].Unknown || d.Levels[2].Never {
		t.Fatalf("%+v", d)
	}
	if spent := d.Spent(&req.Draw); len(spent.Charges) != 1 || spent.Charges[0].LimitID != "l" {
		t.Errorf("spent %+v", spent)
	}
}

// TestDecide_APeekTellsAndSpendsNothing: whatever parts it asks about.
func TestDecide_APeekTellsAndSpendsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	row := tenant("ten_a")
	req := limiter.Request{Fail: closed, Draw: limiter.Draw{
		Charges: []limiter.Charge{charge(row, "l", perSecond(2), 1)}, Slots: []limiter.Slot{slotOf(row, 1, 1)}, Quotas: []limiter.Quota{quotaOf(row, r.clock.Now(), 1, 5)},
	}}
	peek := req
	peek.Peek = true
	for range 5 {
		d := r.decide(peek)
		if !d.Allowed || d.Reason != limiter.ReasonAdmitted || d.Levels[0].Remaining(perSecond(2)) != 2 || d.Slots[0].Active != 0 || d.Quotas[0].Used != 0 || len(d.Quotas) != 1 || d.Leases != nil {
			t.Fatalf("%+v", d)
		}
		if spent := d.Spent(&peek.Draw); len(spent.Charges)+len(spent.Slots)+len(spent.Quotas) != 0 {
			t.Fatalf("spent %+v", spent)
		}
	}
	if !r.decide(req).Allowed {
		t.Fatal("refused after peeks")
	}
	if d := r.decide(peek); d.Allowed || d.Reason != limiter.ReasonConcurrency {
		t.Errorf("a peek at a full limit: %+v", d)
	}
	r.fail(5)
	peek.Fail = within(1, 1)
	for range 3 {
		if d := r.decide(peek); !d.Allowed || !d.Degraded {
			t.Fatalf("a peek spent the fallback: %+v", d)
		}
	}
}

func TestSettle_CorrectsWhatCountsCostOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	row := tenant("ten_a")
	n := policy.Numbers{Tokens: 1, Period: 1_000_000_000, Burst: 100}
	perRequest := charge(row, "requests", n, 1)
	perRequest.PerRequest = true
	calls := quotaOf(row, r.clock.Now(), 1, 100)
	calls.Hash, calls.PerRequest = 89, true
	req := limiter.Request{Fail: closed, Settles: true, Draw: limiter.Draw{
		Charges: []limiter.Charge{charge(row, "points", n, 50), perRequest}, Quotas: []limiter.Quota{quotaOf(row, r.clock.Now(), 50, 1000), calls},
	}}
	d := r.decide(req)
	spent := d.Spent(&req.Draw)
	for range 3 { // repeated: once
		if err := r.Settle(context.Background(), "settle-1", &spent, -30); err != nil {
			t.Fatal(err)
		}
	}
	req.Peek = true
	after := r.decide(req)
	if got := []int64{after.Levels[0].Remaining(n), after.Levels[1].Remaining(n), after.Quotas[0].Used, after.Quotas[1].Used}; !slices.Equal(got, []int64{80, 99, 20, 1}) {
		t.Errorf("after giving back 30: %v", got)
	}
	if err := r.Settle(context.Background(), "settle-2", &spent, 180); err != nil {
		t.Fatal(err)
	}
	after = r.decide(req)
	if after.Allowed || after.Levels[0].Units/n.Period != -100 || after.Quotas[0].Used != 200 {
		t.Errorf("after charging 180 more: %+v", after)
	}
	if r.Stats().Settled != 4 {
		t.Errorf("%d settled", r.Stats().Settled)
	}
}

func TestSettle_WhatComesBackIsAvailableAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	n := policy.Numbers{Tokens: 1, Period: 1_000_000_000, Burst: 10}
	req := each(closed, charge(tenant("ten_a"), "l", n, 10))
	d := r.decide(req)
	if !r.decide(req).Cached {
		t.Fatal("not cached")
	}
	spent := d.Spent(&req.Draw)
	if err := r.Settle(context.Background(), "", &spent, -10); err != nil {
		t.Fatal(err)
	}
	if d := r.decide(req); !d.Allowed {
		t.Errorf("after all was given back: %+v", d)
	}
}

func TestSettle_AsksNothingForNothingAndNothingOfABrokenStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	draw := each(closed, charge(tenant("ten_a"), "l", perSecond(5), 1)).Draw
	if err := r.Settle(context.Background(), "x", &draw, 0); err != nil || r.Stats().Settled != 0 {
		t.Errorf("nothing to correct: %v", err)
	}
	r.fail(5)
	if err := r.Settle(context.Background(), "x", &draw, -1); err == nil {
		t.Error("settled while the store is away")
	}
}

func TestStoreNow_FollowsTheStoresClock(t *testing.T) {
	t.Parallel()
	local, ahead := newManual(), newManual()
	ahead.Advance(7 * time.Second)
	l, err := limiter.New(limiter.Config{Store: memstore.New(ahead.Time), Now: local.Time, Budget: time.Minute, DenyEntries: -1})
	if err != nil {
		t.Fatal(err)
	}
	if got := l.StoreNow(); got != local.Now() {
		t.Errorf("before any reply: %d, want the process' own %d", got, local.Now())
	}
	l.Decide(context.Background(), request(closed))
	for _, step := range []time.Duration{0, time.Second, time.Hour} {
		local.Advance(step)
		ahead.Advance(step)
		if got := l.StoreNow(); got != ahead.Now() {
			t.Errorf("%v later: %d, want %d", step, got, ahead.Now())
		}
	}
	ahead.Advance(-time.Minute) // the store's clock steps back: the next reply says so
	l.Decide(context.Background(), request(closed))
	if got := l.StoreNow(); got != ahead.Now() {
		t.Errorf("after a step: off by %d µs", got-ahead.Now())
	}
}

func TestStoreNow_KeepsTheReplyThatDoubtsLeast(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1, perMilli(1, 1000))
	l := c.replicas[0]
	l.Decide(context.Background(), c.request(1)) // exact
	c.store.there = func() time.Duration { return 20 * time.Millisecond }
	l.Decide(context.Background(), c.request(1)) // could be off by 10 ms
	if got := l.StoreNow(); got != c.clock.Now() {
		t.Errorf("off by %d µs after a slow reply", got-c.clock.Now())
	}
}
