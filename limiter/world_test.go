package limiter_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
)

// TestWorld_I04_NeverMorePlacesThanTheLimit on random traces of replicas that admit,
// release late, twice or never, and a clock that goes on: and all places are free
// again once every lease has ended.
func TestWorld_I04_NeverMorePlacesThanTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		clock := newManual()
		store := memstore.New(clock.Time)
		var replicas []*limiter.Limiter
		for range 3 {
			l, err := limiter.New(limiter.Config{Store: store, Now: clock.Time, Budget: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			replicas = append(replicas, l)
		}
		places := rapid.Int64Range(1, 4).Draw(rt, "places")
		ends := map[string]int64{} // of the leases that are held
		var all []limiter.Lease
		for i := range rapid.IntRange(1, 80).Draw(rt, "steps") {
			clock.Advance(time.Duration(rapid.Int64Range(0, 3_000_000).Draw(rt, "step")) * time.Microsecond)
			for id, end := range ends {
				if end <= clock.Now() {
					delete(ends, id)
				}
			}
			l := replicas[rapid.IntRange(0, 2).Draw(rt, "replica")]
			if len(all) > 0 && rapid.Bool().Draw(rt, "release") {
				gone := rapid.SampledFrom(all).Draw(rt, "lease")
				if err := l.ReleaseLeases(context.Background(), []limiter.Lease{gone}); err != nil {
					rt.Fatal(err)
				}
				delete(ends, gone.ID)
				continue
			}
			d := admit(l, places, i)
			if want := int64(len(ends)) < places; d.Allowed != want {
				rt.Fatalf("%d of %d places held: %+v", len(ends), places, d)
			}
			if d.Allowed {
				ends[d.Leases[0].ID] = clock.Now() + d.Leases[0].HoldMicros
				all = append(all, d.Leases...)
			}
		}
		clock.Advance(10 * time.Second)
		for i := range places {
			if !admit(replicas[0], places, 1000+int(i)).Allowed {
				rt.Fatalf("place %d of %d is not free after all leases have ended", i, places)
			}
		}
	})
}

// TestWorld_R006_ARefusedRequestHasSpentNothingAnywhere, whichever part refuses it.
func TestWorld_R006_ARefusedRequestHasSpentNothingAnywhere(t *testing.T) {
	t.Parallel()
	row := tenant("ten_a")
	for refuses, edit := range map[string]func(*limiter.Draw){
		"limit": func(d *limiter.Draw) { d.Charges[1].Cost = 9 },
		"place": func(d *limiter.Draw) { d.Slots[0].Max = 1 },
		"quota": func(d *limiter.Draw) { d.Quotas[0].Cost = 95 },
	} {
		r := newRig(t, func(c *limiter.Config) { c.DenyEntries = -1 })
		now := r.clock.Now()
		draw := func(i int) limiter.Draw {
			return limiter.Draw{
				Charges: []limiter.Charge{charge(row, "a", perSecond(50), 3), charge(row, "b", perSecond(10), 2)},
				Slots:   []limiter.Slot{slotOf(row, 9, i)}, Quotas: []limiter.Quota{quotaOf(row, now, 7, 100)},
			}
		}
		r.decide(limiter.Request{Fail: closed, Draw: draw(1)})
		for i := range 5 {
			d := draw(2 + i)
			edit(&d)
			if got := r.decide(limiter.Request{Fail: closed, Draw: d}); got.Allowed || got.Leases != nil {
				t.Fatalf("%s: %+v", refuses, got)
			}
		}
		got := r.decide(limiter.Request{Fail: closed, Draw: draw(9), Peek: true})
		if got.Levels[0].Remaining(perSecond(50)) != 47 || got.Levels[1].Remaining(perSecond(10)) != 8 || got.Slots[0].Active != 1 || got.Quotas[0].Used != 7 {
			t.Errorf("%s: after five refusals %+v", refuses, got)
		}
	}
}

// TestWorld_AnswersWithTheWrongPartsAreFailures: neither an admission nor a refusal.
func TestWorld_AnswersWithTheWrongPartsAreFailures(t *testing.T) {
	t.Parallel()
	row := tenant("ten_a")
	draw := limiter.Draw{
		Charges: []limiter.Charge{charge(row, "a", perSecond(5), 1)},
		Slots:   []limiter.Slot{slotOf(row, 2, 1)}, Quotas: []limiter.Quota{quotaOf(row, 1000, 1, 9)},
	}
	good := func() limiter.Outcome {
		return limiter.Outcome{Admitted: true, Levels: make([]limiter.Level, 1), Slots: make([]limiter.SlotLevel, 1), Quotas: make([]limiter.QuotaLevel, 1)}
	}
	for name, edit := range map[string]func(*limiter.Outcome){
		"no slots":                     func(o *limiter.Outcome) { o.Slots = nil },
		"two quotas":                   func(o *limiter.Outcome) { o.Quotas = make([]limiter.QuotaLevel, 2) },
		"admitted without a place":     func(o *limiter.Outcome) { o.Slots[0].Refused = true },
		"admitted beyond a quota":      func(o *limiter.Outcome) { o.Quotas[0].Refused = true },
		"refused by nothing":           func(o *limiter.Outcome) { o.Admitted = false },
		"extra that nobody asked":      func(o *limiter.Outcome) { o.Levels[0].Extra = 5 },
		"more than a full bucket":      func(o *limiter.Outcome) { o.Levels[0].Units = perSecond(5).Full() + 1 },
		"a wait below zero":            func(o *limiter.Outcome) { o.Levels[0].WaitMicros = -1 },
		"a debt and yet admitted":      func(o *limiter.Outcome) { o.Levels[0].Units = -1 },
		"a limit that waits, admitted": func(o *limiter.Outcome) { o.Levels[0].WaitMicros = 5 },
	} {
		r := newRig(t, nil)
		answer := good()
		edit(&answer)
		r.store.answer = &answer
		if d := r.decide(limiter.Request{Fail: closed, Draw: draw}); d.Allowed || !d.Degraded || d.Reason != limiter.ReasonClosed {
			t.Errorf("%s: %+v", name, d)
		}
	}
	r := newRig(t, nil)
	answer := good()
	r.store.answer = &answer
	if d := r.decide(limiter.Request{Fail: closed, Draw: draw}); !d.Allowed {
		t.Errorf("a sound answer: %+v", d)
	}
}

// TestWorld_R040_NoNumbersAreInventedWithoutTheStore in any fail mode and for any parts.
func TestWorld_R040_NoNumbersAreInventedWithoutTheStore(t *testing.T) {
	t.Parallel()
	row := tenant("ten_a")
	r := newRig(t, nil)
	r.fail(5)
	req := limiter.Request{Route: "r", Identity: "ten_a", Draw: limiter.Draw{
		Charges: []limiter.Charge{charge(row, "a", perSecond(5), 1)},
		Slots:   []limiter.Slot{slotOf(row, 2, 1)}, Quotas: []limiter.Quota{quotaOf(row, 1000, 1, 9)},
	}}
	for range 10 {
		for _, fail := range []struct {
			name string
			limiter.Request
		}{{"closed", limiter.Request{Fail: closed}}, {"unlimited", limiter.Request{Fail: unlimited}}, {"rate", limiter.Request{Fail: within(1, 2)}}, {"share", limiter.Request{Fail: shared}}} {
			req.Fail = fail.Fail
			d := r.decide(req)
			if !d.Degraded || d.Levels != nil || d.Slots != nil || d.Quotas != nil || d.Leases != nil || d.Cached || d.Deciding != -1 {
				t.Fatalf("%s: %+v", fail.name, d)
			}
			if spent := d.Spent(&req.Draw); len(spent.Charges)+len(spent.Slots)+len(spent.Quotas) != 0 {
				t.Fatalf("%s: nothing was spent in the store, but %+v", fail.name, spent)
			}
		}
	}
}

func TestWorld_KnownRefusalsHoldWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	req := each(unlimited, charge(tenant("ten_a"), "l", perSecond(1), 1))
	r.decide(req)
	r.fail(5)
	if d := r.decide(req); d.Allowed || !d.Cached || d.Degraded {
		t.Errorf("known to be over its limit: %+v", d)
	}
	r.clock.Advance(time.Second)
	if d := r.decide(req); !d.Allowed || d.Reason != limiter.ReasonOpen {
		t.Errorf("when that is over: %+v", d)
	}
}

// TestWorld_StoreNowIsOffByAtMostHalfTheBestRoundTrip on random round trips.
func TestWorld_StoreNowIsOffByAtMostHalfTheBestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := newCrowd(t, 1, perMilli(1000, 1_000_000))
		l := c.replicas[0]
		best := int64(1 << 40)
		for i := range rapid.IntRange(1, 30).Draw(rt, "calls") {
			there, back := rapid.Int64Range(0, 20_000).Draw(rt, "there"), rapid.Int64Range(0, 20_000).Draw(rt, "back")
			c.store.there = func() time.Duration { return time.Duration(there) * time.Microsecond }
			c.store.back = func() time.Duration { return time.Duration(back) * time.Microsecond }
			draw := limiter.Draw{Charges: []limiter.Charge{charge(tenant(fmt.Sprint(i)), "l", perSecond(5), 1)}}
			l.Decide(context.Background(), limiter.Request{Fail: closed, Draw: draw})
			best = min(best, (there+back+1)/2)
			off := l.StoreNow() - c.clock.Now()
			if max(off, -off) > best+(30*40_000)>>10+1 {
				rt.Fatalf("call %d: off by %d µs, best half round trip %d", i, off, best)
			}
		}
	})
}

func TestWorld_ReasonsAndPartsAreTheInterface(t *testing.T) {
	t.Parallel()
	for reason, word := range map[limiter.Reason]string{
		limiter.ReasonAdmitted: "admitted", limiter.ReasonLimit: "limit", limiter.ReasonConcurrency: "concurrency", limiter.ReasonQuota: "quota",
		limiter.ReasonBlocked: "blocked", limiter.ReasonCostExceedsBurst: "cost-exceeds-burst", limiter.ReasonFallback: "fallback",
		limiter.ReasonClosed: "store-unavailable", limiter.ReasonOpen: "fail-open",
	} {
		if string(reason) != word || strings.ToLower(word) != word {
			t.Errorf("%q, want %q", reason, word)
		}
	}
}
