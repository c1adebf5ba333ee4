package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestUsage_P01_U07_WithoutPostgreSQLEveryRequestIsServedAndComesToTheLedger stops
// PostgreSQL under load, kills a gateway meanwhile, and starts PostgreSQL again: no caller
// notices the first, and the ledger has afterwards what the upstream saw.
func TestUsage_P01_U07_WithoutPostgreSQLEveryRequestIsServedAndComesToTheLedger(t *testing.T) {
	t.Parallel()
	const workers = 4
	away := sized(8*time.Second, 2*time.Minute)
	d := StartDemo(t, "--gateways=2", exact)
	api := newAPILog(t)
	for i, p := range d.Processes.Gateways {
		d.upstreamOf(p, api.URL)
		d.WaitGateway(i)
	}
	d.Publish(chainPolicy())
	ten, _ := d.NewTenant("Counted", "free")
	for i := range d.Gateways {
		eventually(t, time.Minute, "the key is accepted", func() error {
			if a := d.Hit(i, ten.Key, "/warm"); a.Status != http.StatusOK {
				return fmt.Errorf("status %d", a.Status)
			}
			return nil
		})
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	var answered, failed atomic.Int64
	for w := range workers {
		load.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				// The second gateway is killed below: its callers may be cut off.
				switch a := d.Hit(i%2, ten.Key, fmt.Sprintf("/r%d", rand.IntN(usageRoutes))); {
				case a.Status == http.StatusOK:
					answered.Add(1)
				case i%2 == 0:
					failed.Add(1)
				}
				pause(ctx, 2*time.Millisecond)
			}
		})
	}
	pause(t.Context(), time.Second)
	_ = syscall.Kill(d.Processes.Postgres.PID, syscall.SIGINT)
	eventually(t, 20*time.Second, "PostgreSQL is gone", func() error { return gone(d.Processes.Postgres.PID) })
	before := answered.Load()
	pause(t.Context(), away/2)
	d.Kill(d.Processes.Gateways[1])
	d.Restart(d.Processes.Gateways[1])
	d.WaitGateway(1) // without PostgreSQL
	pause(t.Context(), away/2)
	stop()
	load.Wait()
	if answered.Load() == before || failed.Load() > 0 {
		t.Errorf("%d answered, %d failed at the gateway that nobody touched", answered.Load(), failed.Load())
	}
	d.Restart(d.Processes.Postgres)
	eventually(t, time.Minute, "PostgreSQL is back", func() error {
		db, err := pgx.Connect(t.Context(), d.Postgres)
		if err == nil {
			err = db.Close(t.Context())
		}
		return err
	})
	back := time.Now()
	d.ledgerHas(ten.ID, api, workers, 1)
	took(t, fmt.Sprintf("the ledger has what came in %v", away), time.Since(back)-settled, max(away/5, 10*time.Second))
	t.Logf("%d answered", answered.Load())
}

// upstreamOf starts a gateway again with another upstream.
func (d *Demo) upstreamOf(p *Process, upstream string) {
	d.t.Helper()
	p.Argv = slices.Clone(p.Argv)
	for i, arg := range p.Argv {
		if strings.HasPrefix(arg, "--upstream=") {
			p.Argv[i] = "--upstream=" + upstream
		}
	}
	d.Kill(p)
	d.Restart(p)
}
