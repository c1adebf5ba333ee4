package redisstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
	"github.com/headgate/headgate/policy"
)

// stalled is a Cluster of which one shard hangs for good.
type stalled struct {
	*testkit.ClusterSet
	store *redisstore.Store
	shard *testkit.Node
}

// stall has the shard hang that has the row, its replica too, so that nobody takes
// over. The others go on serving.
func stall(t *testing.T, row limiter.Row) stalled {
	t.Helper()
	c := testkit.Cluster(t)
	s := stalled{ClusterSet: c, store: redisstore.New(patientTo(t, c.URL()), options)}
	for _, n := range c.Nodes { // else one dead shard is everybody's
		if err := patient(t, n.URL).ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Fatal(err)
		}
	}
	s.shard = c.Owner(c.Slot(s.store.RowKey(row)))
	exercise(t, s.store) // connections and scripts are there
	return s
}

func (s stalled) begin() {
	s.ReplicaOf(s.shard).Pause()
	s.shard.Pause()
}

// elsewhere is a tenant on a shard that lives.
func (s stalled) elsewhere() limiter.Row {
	for i := 0; ; i++ {
		row := storetest.Tenant(fmt.Sprint("ten_", i))
		if s.Owner(s.Slot(s.store.RowKey(row))) != s.shard {
			return row
		}
	}
}

// TestCluster_R02_R07_AHungShardWithAGlobalLimitLeavesTenantsElsewhereExact: each
// request asks for the limit on everything first, whose lane hangs. The fail mode
// is for that limit; the tenant's holds to the token, and nobody else waits.
func TestCluster_R02_R07_AHungShardWithAGlobalLimitLeavesTenantsElsewhereExact(t *testing.T) {
	t.Parallel()
	everything := limiter.Row{Kind: limiter.RowGlobal}
	s := stall(t, everything)
	var opened atomic.Bool
	l, err := limiter.New(limiter.Config{
		Store: s.store, Budget: 500 * time.Millisecond, LeaseGlobal: true, Cause: redisstore.Cause,
		OnModeChange: func(degraded bool) { opened.Store(opened.Load() || degraded) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = l.Run(ctx) }()

	row := s.elsewhere()
	all := storetest.Draw(everything, "global.all", policy.Numbers{Tokens: 1, Period: 100, Burst: 10_000}, 1)
	own := storetest.Draw(row, "l", hourly, 1)
	ask := func(fail policy.StoreFailure, charges ...limiter.Charge) limiter.Decision {
		return l.Decide(ctx, limiter.Request{Route: "r", Identity: row.Tenant, Fail: fail, Draw: limiter.Draw{Charges: charges}})
	}
	eventually(t, "a first decision", func() bool { return !ask(closed, all, own).Degraded })
	s.begin()
	eventually(t, "the limit that hangs to be missed", func() bool { return ask(closed, all).Degraded })

	admitted := 0
	eventually(t, "the tenant's own limit to refuse", func() bool {
		d := ask(open, all, own)
		if d.Allowed {
			admitted++
		}
		return !d.Allowed && !d.Degraded && d.Reason == limiter.ReasonLimit && d.Deciding == 1
	})
	// A few are decided by the fail mode alone, as long as nobody knows what ails.
	if admitted > int(hourly.Burst)+10 {
		t.Errorf("%d admitted of a burst of %d", admitted, hourly.Burst)
	}
	other := storetest.Draw(row, "another", hourly, 1)
	exact := 0
	for range 50 {
		if d := ask(closed, other); d.Allowed && !d.Degraded {
			exact++
		}
	}
	if exact < 45 {
		t.Errorf("%d of 50 requests without the limit that hangs were decided exactly", exact)
	}
	if opened.Load() {
		t.Error("one hung shard opened the breaker for all")
	}
}

// TestCluster_R02_R07_AHungShardDoesNotAnswerForTheOthers: the probe that closes the
// breaker has to succeed as long as some shard serves, whichever hangs.
func TestCluster_R02_R07_AHungShardDoesNotAnswerForTheOthers(t *testing.T) {
	t.Parallel()
	s := stall(t, tenant)
	for _, hangs := range s.Nodes[:3] {
		replica := s.ReplicaOf(hangs)
		replica.Pause()
		hangs.Pause()
		for i := range 12 { // lanes that are left alone, and those that are tried again
			if err := s.store.Ping(within(t, 500*time.Millisecond)); err != nil {
				t.Errorf("ping %d with %s hanging: %v", i, hangs.Addr, err)
			}
		}
		hangs.Resume()
		replica.Resume()
	}
}
