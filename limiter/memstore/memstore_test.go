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

func TestStore_Conforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) (limiter.Store, storetest.Clock) {
		clock := storetest.NewManual()
		return memstore.New(clock.Time), clock
	})
}

func TestStore_ForgetsRowsThatAreFullAgain(t *testing.T) {
	t.Parallel()
	clock := storetest.NewManual()
	store := memstore.New(clock.Time)
	n := policy.Numbers{Tokens: 1, Period: 1000, Burst: 10}
	draw := func(tenant string) {
		charges := []limiter.Charge{storetest.Draw(storetest.Tenant(tenant), "l", n, 1)}
		if _, err := store.Take(context.Background(), &limiter.Draw{Charges: charges}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10_000 {
		draw(fmt.Sprint("ten_", i))
	}
	if got := store.Rows(); got != 10_000 {
		t.Fatalf("%d rows in use, want 10000", got)
	}
	clock.Advance(2 * time.Hour)
	for range 10_000 {
		draw("ten_only")
	}
	if got := store.Rows(); got > 100 {
		t.Errorf("%d rows kept although one is in use", got)
	}
}
