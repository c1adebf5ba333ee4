package memstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/limiter/storetest"
	"github.com/headgate/headgate/policy"
)

func newWorld(*testing.T) storetest.World {
	clock := storetest.NewManual()
	store := memstore.New(clock.Time)
	return storetest.World{Store: store, Clock: clock, Flush: func(testing.TB) { store.Flush() }, Mark: func(testing.TB) { store.Mark() }, Fast: true}
}

func TestStore_Conforms(t *testing.T) {
	t.Parallel()
	storetest.Conform(t, newWorld)
}

func TestStore_I25_IsLinearizable(t *testing.T) {
	t.Parallel()
	storetest.Linearizable(t, func() []limiter.Store {
		store := memstore.New(time.Now)
		clients := make([]limiter.Store, 12)
		for i := range clients {
			clients[i] = store
		}
		return clients
	})
}

// use makes the calls of one short-lived tenant: a bucket, a lease, a quota, a
// newcomer and a correction.
func use(t *testing.T, store *memstore.Store, clock *storetest.Manual, i int) {
	t.Helper()
	row, n := storetest.Tenant(fmt.Sprint("ten_", i)), policy.Numbers{Tokens: 1, Period: 1000, Burst: 10}
	newcomer := storetest.Draw(limiter.Row{Kind: limiter.RowDimension, Tenant: row.Tenant, Subject: "u"}, "u", n, 1)
	newcomer.Identifiers = 100
	now := clock.Now()
	_, err := store.Take(context.Background(), &limiter.Draw{
		Charges: []limiter.Charge{storetest.Draw(row, "l", n, 1), newcomer},
		Slots:   []limiter.Slot{{Row: row, Max: 5, Lease: fmt.Sprintf("lease-of-request-%d", i), HoldMicros: 30_000_000}},
		Quotas:  []limiter.Quota{{Row: row, Cost: 1, Amount: 5, Start: now, End: now + 60_000_000}, {Row: row, Cost: 1, Amount: 5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Amend(context.Background(), fmt.Sprint("correction ", i), nil); err != nil {
		t.Fatal(err)
	}
}

func TestStore_MemoryFollowsWhatIsInUse(t *testing.T) {
	t.Parallel()
	clock := storetest.NewManual()
	store := memstore.New(clock.Time)
	const many = 5000
	for i := range many {
		use(t, store, clock, i)
	}
	if rows, slots, quotas, marks := store.Sizes(); rows != 3*many || slots != many || quotas != 2*many || marks != many {
		t.Fatalf("%d rows, %d sets of leases, %d counters, %d ids in use", rows, slots, quotas, marks)
	}
	clock.Advance(3 * time.Hour)
	for range 2 * many {
		use(t, store, clock, 0)
	}
	rows, slots, quotas, marks := store.Sizes()
	if rows > 300 || slots > 100 || marks > 100 {
		t.Errorf("%d rows, %d sets of leases, %d ids kept although one tenant is left", rows, slots, marks)
	}
	if quotas < many || quotas > many+200 {
		t.Errorf("%d counters kept, want those of %d lifetimes and few more", quotas, many)
	}
	clock.Advance(401 * 24 * time.Hour)
	for range 2 * many {
		use(t, store, clock, 0)
	}
	if _, _, quotas, _ := store.Sizes(); quotas > 200 {
		t.Errorf("%d counters kept after 400 days", quotas)
	}
}

// TestStore_ASmallStepBackFindsWhatItKnew: what was swept is only what an hour's
// step of the clock would not bring back to use.
func TestStore_ASmallStepBackFindsWhatItKnew(t *testing.T) {
	t.Parallel()
	clock := storetest.NewManual()
	store := memstore.New(clock.Time)
	use(t, store, clock, 1)
	clock.Advance(59 * time.Minute)
	for range 100 {
		if err := store.Release(context.Background(), nil); err != nil { // sweeps
			t.Fatal(err)
		}
	}
	clock.Advance(-59 * time.Minute)
	row, n := storetest.Tenant("ten_1"), policy.Numbers{Tokens: 1, Period: 1000, Burst: 10}
	out, err := store.Take(context.Background(), &limiter.Draw{
		Charges: []limiter.Charge{storetest.Draw(row, "l", n, 10)},
		Slots:   []limiter.Slot{{Row: row, Max: 5, Lease: "lease-of-request-9", HoldMicros: 1}},
	})
	if err != nil || out.Admitted || out.Levels[0].Units != 9000 || out.Slots[0].Active != 1 {
		t.Errorf("%+v, %v; want a token and a place taken", out, err)
	}
}
