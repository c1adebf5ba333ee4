package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"
)

// gatewaysFromEnv is how many gateways the limit is tried over.
func gatewaysFromEnv(t *testing.T) int {
	t.Helper()
	v := os.Getenv("HEADGATE_E2E_GATEWAYS")
	if v == "" {
		return 3
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("HEADGATE_E2E_GATEWAYS: %v", err)
	}
	return n
}

// tally counts what a tenant on 60 a minute, burst 60, was admitted, and knows
// how much that may be.
type tally struct {
	from          time.Time // just before the first request
	begun         time.Time // just after its answer
	lastAsked     time.Time // just before the last request, which was refused
	lastAnswered  time.Time
	admitted      int
	gatewaysAsked map[int]bool
}

// hit asks the gateways in turn until they refuse n times in a row.
func (c *tally) hit(t *testing.T, d *Demo, key string, n int) {
	t.Helper()
	if c.from.IsZero() {
		c.from, c.gatewaysAsked = time.Now(), map[int]bool{}
	}
	for i, row := 0, 0; row < n; i++ {
		g := i % len(d.Gateways)
		c.lastAsked = time.Now()
		switch a := d.Hit(g, key, "/v1/items"); a.Status {
		case http.StatusOK:
			c.admitted++
			row = 0
			c.gatewaysAsked[g] = true
		case http.StatusTooManyRequests:
			row++
		default:
			t.Fatalf("gateway %d: status %d: %s", g+1, a.Status, a.Body)
		}
		c.lastAnswered = time.Now()
		if c.begun.IsZero() {
			c.begun = c.lastAnswered
		}
	}
}

// check holds the count against the limit: a full burst of 60 and one a second
// since. Both ends are exact, because the last request found the bucket empty.
func (c *tally) check(t *testing.T, when string) {
	t.Helper()
	least := 60 + int(c.lastAsked.Sub(c.begun).Seconds())
	most := 60 + int(c.lastAnswered.Sub(c.from).Seconds())
	t.Logf("%s: admitted %d within %s (allowed: %d to %d)", when, c.admitted, c.lastAnswered.Sub(c.from).Round(time.Millisecond), least, most)
	if c.admitted < least || c.admitted > most {
		t.Errorf("%s: admitted %d, want %d to %d", when, c.admitted, least, most)
	}
}

func TestOneLimit_HoldsOverAllGatewaysAndTheirRestarts(t *testing.T) {
	t.Parallel()
	n := gatewaysFromEnv(t)
	d := StartDemo(t, fmt.Sprintf("--gateways=%d", n), exact)
	tenant := quiet(t, d, "free")
	var c tally
	c.hit(t, d, tenant.Key, 2*n)
	c.check(t, "at once")
	if len(c.gatewaysAsked) != n {
		t.Errorf("%d of %d gateways admitted something", len(c.gatewaysAsked), n)
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		c.hit(t, d, tenant.Key, 5)
	}
	c.check(t, "then one each second")
	for _, p := range d.Processes.Gateways {
		d.Kill(p)
	}
	for _, p := range d.Processes.Gateways {
		d.Restart(p)
	}
	for i := range d.Gateways {
		d.WaitGateway(i)
	}
	c.hit(t, d, tenant.Key, 2*n)
	c.check(t, "after kill -9 and restart of all gateways")
}

// quiet is a sample tenant on a plan that the traffic does not touch.
func quiet(t *testing.T, d *Demo, plan string) Tenant {
	t.Helper()
	for _, tenant := range d.Tenants {
		if tenant.Plan == plan && !tenant.Traffic {
			return tenant
		}
	}
	t.Fatalf("no quiet tenant on %s among %v", plan, d.Tenants)
	return Tenant{}
}

func TestRetryAfter_IsEnoughAndOneMillisecondLessIsNot(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=1", exact)
	tenant := quiet(t, d, "free")
	var last Answer
	for last.Status != http.StatusTooManyRequests {
		last = d.Hit(0, tenant.Key, "/v1/items")
		if last.Status != http.StatusOK && last.Status != http.StatusTooManyRequests {
			t.Fatalf("status %d: %s", last.Status, last.Body)
		}
	}
	at := time.Now()
	wait := time.Duration(num(last.JSON(t), "retry_after_ms")) * time.Millisecond
	if wait <= 0 || wait > time.Second {
		t.Fatalf("retry_after_ms is %s for one request a second", wait)
	}
	if got := last.Header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After: %q, want 1", got)
	}
	eventually(t, 5*time.Second, "admitted again", func() error {
		if a := d.Hit(0, tenant.Key, "/v1/items"); a.Status != http.StatusOK {
			return fmt.Errorf("status %d", a.Status)
		}
		return nil
	})
	waited := time.Since(at)
	took(t, "admitted again after the wait that was promised", waited, wait+100*time.Millisecond)
	// The refusal was made up to its own round trip before at.
	if waited+last.Took < wait {
		t.Errorf("admitted %s after a refusal that promised %s", waited, wait)
	}
}
