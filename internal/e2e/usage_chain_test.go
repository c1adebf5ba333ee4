package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// chainPolicy is usagePolicy with the demo's plans.
func chainPolicy() string {
	return strings.Replace(usagePolicy(), "plans: {free: {limits: []}}", "plans: {free: {limits: []}, pro: {limits: []}}", 1)
}

// TestUsage_U01_I08_TheWholeChainLosesAndDoublesNothing kills gateway, console and Redis
// at random moments under load. Then what the upstream saw is in PostgreSQL, by route, each
// request once, and the surplus is marked.
func TestUsage_U01_I08_TheWholeChainLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	const workers = 4
	kills := sized(6, 200)
	d := StartDemo(t, "--gateways=1", exact)
	api := newAPILog(t)
	p := d.Processes.Gateways[0]
	d.upstreamOf(p, api.URL)
	d.WaitGateway(0)
	d.Publish(chainPolicy())
	ten, _ := d.NewTenant("Counted", "free")
	eventually(t, time.Minute, "the key is accepted", func() error {
		if a := d.Hit(0, ten.Key, "/warm"); a.Status != http.StatusOK {
			return fmt.Errorf("status %d", a.Status)
		}
		return nil
	})

	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var answered atomic.Int64
	for w := range workers {
		load.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				if a := d.Hit(0, ten.Key, fmt.Sprintf("/r%d", i%usageRoutes)); a.Status == http.StatusOK {
					answered.Add(1)
				}
				pause(ctx, 2*time.Millisecond)
			}
		})
	}
	ofGateways := 0
	for i := range kills {
		pause(t.Context(), time.Duration(100+rand.IntN(sized(1200, 500)))*time.Millisecond)
		switch part := i % 4; part {
		case 1:
			d.Kill(d.Processes.Console)
			d.Restart(d.Processes.Console)
		case 3:
			d.Kill(d.Processes.Redis)
			pause(t.Context(), 200*time.Millisecond)
			d.Restart(d.Processes.Redis)
		default:
			ofGateways++
			d.Kill(p)
			d.Restart(p)
			d.WaitGateway(0)
		}
	}
	pause(t.Context(), time.Second)
	stop()
	load.Wait()
	d.Kill(p) // and what is open stays open
	d.Restart(p)
	d.WaitGateway(0)
	d.ledgerHas(ten.ID, api, workers, ofGateways+1)
	if answered.Load() == 0 {
		t.Error("nothing was answered")
	}
	t.Logf("%d kills, %d of gateways: %d answered", kills, ofGateways, answered.Load())
}

// settled is how long it takes until what is sent twice has come: 5 s.
const settled = 6 * time.Second

// ledgerHas waits until the ledger has what the upstream saw, and checks that it has
// nothing else.
func (d *Demo) ledgerHas(tenant string, api *apiLog, workers, kills int) {
	d.t.Helper()
	db, err := pgx.Connect(d.t.Context(), d.Postgres)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	sums := func(route string) (admitted, cost, interrupted int64) {
		d.t.Helper()
		err := db.QueryRow(d.t.Context(), `SELECT
			coalesce(sum(requests) FILTER (WHERE outcome IN ('admitted', 'fallback-admitted')), 0)::bigint,
			coalesce(sum(cost) FILTER (WHERE outcome IN ('admitted', 'fallback-admitted')), 0)::bigint,
			coalesce(sum(requests) FILTER (WHERE outcome = 'interrupted'), 0)::bigint
			FROM usage_events WHERE tenant_id = $1 AND route = $2`, tenant, route).Scan(&admitted, &cost, &interrupted)
		if err != nil {
			d.t.Fatal(err)
		}
		return admitted, cost, interrupted
	}
	eventually(d.t, 2*time.Minute, "the ledger has everything", func() error {
		for i := range usageRoutes {
			route := fmt.Sprintf("r%d", i)
			if a, _, cut := sums(route); a+cut < api.count(route) {
				return fmt.Errorf("%s: %d and %d of %d", route, a, cut, api.count(route))
			}
		}
		return nil
	})
	pause(d.t.Context(), settled)
	var surplus int64
	for i := range usageRoutes {
		route := fmt.Sprintf("r%d", i)
		a, cost, cut := sums(route)
		surplus += cut
		if saw := api.count(route); a > saw+int64(workers) || a+cut < saw || cost != a*int64(i+1) {
			d.t.Errorf("%s: the upstream saw %d, the ledger has %d of cost %d and %d interrupted", route, saw, a, cost, cut)
		}
	}
	if surplus > int64(workers*kills) {
		d.t.Errorf("%d are called interrupted after %d kills with %d under way", surplus, kills, workers)
	}
}
