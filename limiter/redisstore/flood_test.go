package redisstore_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
)

// TestStore_B2_AFloodOfIdentifiersTakesItsTenantsShareAlone: one tenant shows a new address
// with each request, 40 000 of them (10 million with HEADGATE_FAULTS=long). Redis keeps as
// many apart as the limit says (what each takes: TestStore_T9), the others share a bucket, and
// another tenant's addresses are kept apart as ever.
func TestStore_B2_AFloodOfIdentifiersTakesItsTenantsShareAlone(t *testing.T) {
	t.Parallel()
	identifiers, flood := int64(1000), int64(40_000)
	if os.Getenv("HEADGATE_FAULTS") == "long" {
		identifiers, flood = 10_000, 10_000_000
	}
	url := testkit.RedisURL(t)
	store, err := redisstore.Open(url, redisstore.Options{Deployment: "flood", Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	client := patient(t, url)
	perDay := rate(t, 1000, 24*time.Hour, 1000) // its rows stay for longer than the test
	ask := func(tenant, subject string) limiter.Level {
		c := storetest.Draw(limiter.Row{Kind: limiter.RowDimension, Tenant: tenant, Subject: subject}, "subjects", perDay, 1)
		c.Identifiers = identifiers
		out, err := store.Take(context.Background(), &limiter.Draw{Charges: []limiter.Charge{c}})
		if err != nil {
			t.Error(err)
			return limiter.Level{}
		}
		return out.Levels[0]
	}
	const callers = 64
	var load sync.WaitGroup
	for w := range int64(callers) {
		load.Go(func() {
			for i := w; i < flood && !t.Failed(); i += callers {
				ask("ten_flooding", strconv.FormatInt(i, 36))
				if i%(flood/100) == 0 {
					if l := ask("ten_other", fmt.Sprint(i)); l.Overflow || l.WaitMicros > 0 {
						t.Errorf("another tenant's address is counted with others: %+v", l)
					}
				}
			}
		})
	}
	load.Wait()
	if l := ask("ten_flooding", "one more"); !l.Overflow {
		t.Errorf("one more is kept apart: %+v", l)
	}
	keys, err := client.DBSize(context.Background()).Result()
	if most := identifiers + 100 + 8; err != nil || keys > most || keys < identifiers/2 {
		t.Errorf("%d keys (%v), want at most %d", keys, err, most)
	}
	t.Logf("%d identifiers, %d keys", flood, keys)
}
