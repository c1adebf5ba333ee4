package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
)

// partsOf names the parts of a draw.
func partsOf(d limiter.Draw) string {
	var names []string
	for _, c := range d.Charges {
		names = append(names, c.LimitID)
	}
	for _, s := range d.Slots {
		names = append(names, s.LimitID)
	}
	for _, q := range d.Quotas {
		names = append(names, q.LimitID)
	}
	return strings.Join(names, " ")
}

// TestDecision_SpentIsWhatTheStoreSpent: shadows only when none of them refuses, and
// nothing that was counted in an overflow bucket.
func TestDecision_SpentIsWhatTheStoreSpent(t *testing.T) {
	t.Parallel()
	row := tenant("ten_a")
	draw := func() limiter.Draw {
		d := limiter.Draw{
			Charges: []limiter.Charge{charge(row, "a", perSecond(5), 1), charge(row, "b", perSecond(5), 1)},
			Slots:   []limiter.Slot{slotOf(row, 2, 1)}, Quotas: []limiter.Quota{quotaOf(row, 1000, 1, 9)},
		}
		d.Charges[1].Shadow = true
		return d
	}
	admitted := func() limiter.Decision {
		return limiter.Decision{Allowed: true, Levels: make([]limiter.Level, 2), Slots: make([]limiter.SlotLevel, 1), Quotas: make([]limiter.QuotaLevel, 1)}
	}
	for name, c := range map[string]struct {
		edit func(*limiter.Decision, *limiter.Draw)
		want string
	}{
		"all":                 {func(*limiter.Decision, *limiter.Draw) {}, "a b route:r.concurrency plan.quota"},
		"a shadow limit":      {func(d *limiter.Decision, _ *limiter.Draw) { d.Levels[1].WaitMicros = 1 }, "a route:r.concurrency plan.quota"},
		"a shadow place":      {func(d *limiter.Decision, w *limiter.Draw) { d.Slots[0].Refused, w.Slots[0].Shadow = true, true }, "a plan.quota"},
		"a shadow quota":      {func(d *limiter.Decision, w *limiter.Draw) { d.Quotas[0].Refused, w.Quotas[0].Shadow = true, true }, "a route:r.concurrency"},
		"a shadow that never": {func(d *limiter.Decision, _ *limiter.Draw) { d.Levels[1].Never = true }, "a route:r.concurrency plan.quota"},
		"overflow":            {func(d *limiter.Decision, _ *limiter.Draw) { d.Levels[0].Overflow = true }, "b route:r.concurrency plan.quota"},
		"refused":             {func(d *limiter.Decision, _ *limiter.Draw) { d.Allowed = false }, ""},
		"degraded":            {func(d *limiter.Decision, _ *limiter.Draw) { *d = limiter.Decision{Allowed: true, Degraded: true} }, ""},
	} {
		d, w := admitted(), draw()
		c.edit(&d, &w)
		if got := partsOf(d.Spent(&w)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWorld_I01_RealTimeReplicasKeepToTheLimit: leased limits in real time, refills and
// what is given back in the background. The interval is measured from outside.
func TestWorld_I01_RealTimeReplicasKeepToTheLimit(t *testing.T) {
	t.Parallel()
	store := memstore.New(time.Now)
	n := perMilli(20, 4000)
	one := charge(limiter.Row{Kind: limiter.RowGlobal}, "global.all", n, 1)
	one.Leased = true
	ctx, cancel := context.WithCancel(context.Background())
	var replicas []*limiter.Limiter
	var runs sync.WaitGroup
	for range 3 {
		l, err := limiter.New(limiter.Config{Store: store, Budget: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		runs.Go(func() {
			if err := l.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Run ended with %v", err)
			}
		})
		replicas = append(replicas, l)
	}
	var admitted atomic.Int64
	var callers sync.WaitGroup
	began := time.Now()
	for _, l := range replicas {
		for range 2 {
			callers.Go(func() {
				for range 5000 {
					if l.Decide(ctx, each(closed, one)).Allowed {
						admitted.Add(1)
					}
				}
			})
		}
	}
	callers.Wait()
	took := time.Since(began)
	cancel()
	runs.Wait()
	if bound := n.Burst + took.Microseconds()*n.Tokens/n.Period + 1; admitted.Load() > bound {
		t.Errorf("%d admitted in %v, at most %d", admitted.Load(), took, bound)
	}
	for i, l := range replicas {
		if held := l.SliceTokens(); held != 0 {
			t.Errorf("replica %d holds %d tokens after its end", i, held)
		}
	}
}

// TestHold_LeasesOfDifferentHoldsAreRenewedInTheirOwnTime.
func TestHold_LeasesOfDifferentHoldsAreRenewedInTheirOwnTime(t *testing.T) {
	t.Parallel()
	holding(t, func(t *testing.T, l *limiter.Limiter, _ *leaseStore) {
		holds := []time.Duration{time.Second, 5 * time.Second, time.Minute}
		take := func(i int, hold time.Duration, name string) limiter.Decision {
			s := lease(limiter.Slot{Row: tenant("ten_a"), LimitID: name, Hash: uint64(len(name)), Max: 1, HoldMicros: hold.Microseconds()}, i)
			return l.Decide(context.Background(), limiter.Request{Fail: closed, Draw: limiter.Draw{Slots: []limiter.Slot{s}}})
		}
		var held []*limiter.Hold
		for i, hold := range holds {
			held = append(held, l.Hold(take(i, hold, strings.Repeat("x", i+1)).Leases))
			pass(300 * time.Millisecond)
		}
		for round := range 30 {
			pass(7 * time.Second)
			for i, hold := range holds {
				if take(100*round+10+i, hold, strings.Repeat("x", i+1)).Allowed {
					t.Fatalf("round %d: the lease of %v was lost", round, hold)
				}
			}
		}
		for _, h := range held {
			h.Release()
		}
		for i, hold := range holds {
			if d := take(9000+i, hold, strings.Repeat("x", i+1)); !d.Allowed {
				t.Errorf("%s after its release: %+v", fmt.Sprint(hold), d)
			}
		}
	})
}
