package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
)

// TestStore_R026_ACrowdWaitsForConnections: requests that end at once must not take the
// connections of those that begin, nor be told that Redis is away.
func TestStore_R026_ACrowdWaitsForConnections(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"standalone": testkit.RedisURL(t), "cluster": testkit.Cluster(t).URL()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := options
			opts.Namespace, opts.Budget = "crowd", time.Minute
			store, err := redisstore.Open(url, opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			begin, errs := make(chan struct{}), make(chan error, 256)
			var crowd sync.WaitGroup
			for i := range cap(errs) {
				crowd.Go(func() {
					<-begin
					errs <- cameAndWent(t.Context(), store, i)
				})
			}
			close(begin)
			crowd.Wait()
			close(errs)
			for err := range errs {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// cameAndWent takes a place and gives it back.
func cameAndWent(ctx context.Context, store *redisstore.Store, i int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	slot := limiter.Slot{
		Row: limiter.Row{Kind: limiter.RowTenant, Tenant: fmt.Sprintf("ten_%d", i%8)}, LimitID: "c", Hash: 7, Max: 1000,
		Lease: fmt.Sprintf("lease-%020d", i), HoldMicros: 60_000_000,
	}
	if _, err := store.Take(ctx, &limiter.Draw{Slots: []limiter.Slot{slot}}); err != nil {
		return err
	}
	return store.Release(ctx, []limiter.Lease{slot.Held()})
}

// TestStore_WhoWaitsForAConnectionLeavesByItsDeadline, and takes no place with it.
func TestStore_WhoWaitsForAConnectionLeavesByItsDeadline(t *testing.T) {
	t.Parallel()
	store, err := redisstore.Open("redis://"+silentAddress(t)+"?pool_size=1", redisstore.Options{Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	row := limiter.Row{Kind: limiter.RowTenant, Tenant: "ten_a"}
	lease := limiter.Lease{Row: row, Hash: 7, Max: 1, ID: "lease-0000000000000000", HoldMicros: 60_000_000}
	var crowd sync.WaitGroup
	for range 8 { // one has the connection and the others wait; all leave
		crowd.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := store.Release(ctx, []limiter.Lease{lease}); redisstore.Cause(err) != "hang" {
				t.Errorf("cause %q of %v", redisstore.Cause(err), err)
			}
		})
	}
	crowd.Wait()
}
