package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/policy"
)

// quotaDocument has a monthly quota that blocks, and one for a lifetime.
func quotaDocument(month, life int) string {
	return fmt.Sprintf(`apiVersion: headgate/v1
plans:
  free: {limits: [], quota: {amount: %d, counts: requests, period: month, over: block}}
  pro: {limits: [], quota: {amount: %d, counts: requests, period: lifetime, over: block}}
routes:
  - name: all
    match: ["/"]
    identity: api_key
    motive: quota
    on_store_failure: {mode: closed}
`, month, life)
}

// quotaLoad asks all gateways for a tenant until its quota is used up, and counts.
type quotaLoad struct {
	admitted, closed atomic.Int64
	refused          sync.WaitGroup // until each worker was told that the quota is used up
}

func (l *quotaLoad) run(t *testing.T, d *Demo, ten Tenant, workers int) {
	t.Helper()
	for w := range workers {
		l.refused.Go(func() {
			for t.Context().Err() == nil {
				switch a := d.Hit(w%len(d.Gateways), ten.Key, "/x"); a.Status {
				case http.StatusOK:
					l.admitted.Add(1)
				case http.StatusServiceUnavailable:
					l.closed.Add(1)
					pause(t.Context(), 20*time.Millisecond)
				case http.StatusTooManyRequests:
					return
				default:
					t.Errorf("status %d: %s", a.Status, a.Body)
					return
				}
			}
		})
	}
}

// served waits until a tenant with a quota is served: its lane has its mark.
func served(t *testing.T, d *Demo, ten Tenant) {
	t.Helper()
	eventually(t, time.Minute, "a quota is counted", func() error {
		if a := d.Hit(0, ten.Key, "/x"); a.Status != http.StatusOK {
			return fmt.Errorf("status %d: %s", a.Status, a.Body)
		}
		return nil
	})
}

// quotaStanding is how Redis and ledger stood for a tenant when they were compared after a time.
func quotaStanding(ctx context.Context, t *testing.T, db *pgx.Conn, tenant string, after time.Time) (redis, ledger int64, err error) {
	t.Helper()
	err = db.QueryRow(ctx, `SELECT coalesce(redis_units, -1), ledger_units FROM quota_standings WHERE tenant_id = $1 AND compared_at > $2`, tenant, after).Scan(&redis, &ledger)
	return redis, ledger, err
}

// TestQuota_I12_R11_R106_AFlushUnderLoadPassesNoQuota: three gateways admit what they can while Redis loses
// every counter. Until it is rebuilt nobody is admitted, then exactly what was left; and Redis and the ledger agree a
// minute later.
func TestQuota_I12_R11_R106_AFlushUnderLoadPassesNoQuota(t *testing.T) {
	t.Parallel()
	const month, life = 1500, 5
	d := StartDemo(t, "--gateways=3", exact)
	d.Publish(quotaDocument(month, life))
	monthly, _ := d.NewTenant("Monthly", "free")
	lifelong, _ := d.NewTenant("Lifelong", "pro")
	served(t, d, monthly)
	served(t, d, lifelong)
	for i := range life - 1 {
		if a := d.Hit(i%3, lifelong.Key, "/x"); a.Status != http.StatusOK {
			t.Fatalf("request %d of a lifetime: %d: %s", i+2, a.Status, a.Body)
		}
	}
	var load quotaLoad
	load.admitted.Add(1)
	load.run(t, d, monthly, 6)
	eventually(t, time.Minute, "a third is used", func() error {
		if n := load.admitted.Load(); n < month/3 {
			return fmt.Errorf("%d admitted", n)
		}
		return nil
	})
	if err := d.RedisClient().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	flushed := time.Now()
	eventually(t, time.Minute, "quotas are closed", func() error {
		if load.closed.Load() == 0 {
			return fmt.Errorf("nobody was refused, %d admitted", load.admitted.Load())
		}
		return nil
	})
	eventually(t, time.Minute, "counters are rebuilt", func() error {
		return marksAreBack(t, d)
	})
	took(t, "counters are rebuilt after a flush", time.Since(flushed), 10*time.Second)
	load.refused.Wait()
	if n := load.admitted.Load(); n != month {
		t.Errorf("%d of %d admitted", n, month)
	}
	if a := d.Hit(1, lifelong.Key, "/x"); a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") != "" {
		t.Errorf("a lifetime's sixth request: %d, Retry-After %q", a.Status, a.Header.Get("Retry-After"))
	}
	ended := time.Now()
	agree(t, d, monthly, month, ended)
	agree(t, d, lifelong, life, ended)
	took(t, "drift is gone", time.Since(ended), time.Minute)
}

func marksAreBack(t *testing.T, d *Demo) error {
	t.Helper()
	keys, err := d.RedisClient().Keys(t.Context(), "hg:l:*:k").Result()
	if err == nil && len(keys) < policy.TenantLanes {
		err = fmt.Errorf("%d lanes are marked", len(keys))
	}
	return err
}

// agree waits until Redis and the ledger both say that so much was used.
func agree(t *testing.T, d *Demo, ten Tenant, used int64, after time.Time) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), d.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	eventually(t, 2*time.Minute, "Redis and the ledger agree", func() error {
		redis, ledger, err := quotaStanding(t.Context(), t, db, ten.ID, after)
		if err == nil && (redis != used || ledger != used) {
			err = fmt.Errorf("Redis %d, ledger %d, want %d", redis, ledger, used)
		}
		return err
	})
}

// TestQuota_I12_AKilledGatewaysAdmissionsCountWhenItIsBack: what it had admitted and nobody knew of is
// in its spool, so that it comes to the ledger, and Redis is raised to it.
func TestQuota_I12_AKilledGatewaysAdmissionsCountWhenItIsBack(t *testing.T) {
	t.Parallel()
	const month = 400
	d := StartDemo(t, "--gateways=2", exact)
	d.Publish(quotaDocument(month, 5))
	ten, _ := d.NewTenant("Monthly", "free")
	served(t, d, ten)
	for range 99 {
		if a := d.Hit(1, ten.Key, "/x"); a.Status != http.StatusOK {
			t.Fatalf("status %d: %s", a.Status, a.Body)
		}
	}
	killed := d.Processes.Gateways[1]
	d.Kill(killed)
	if err := d.RedisClient().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "counters are rebuilt", func() error { return marksAreBack(t, d) })
	d.Restart(killed)
	d.WaitGateway(1)
	agree(t, d, ten, 100, time.Now())
	var load quotaLoad
	load.admitted.Add(100)
	load.run(t, d, ten, 4)
	load.refused.Wait()
	if n := load.admitted.Load(); n != month {
		t.Errorf("%d of %d admitted", n, month)
	}
}
