package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// rulesAt asks a gateway for a decision and says where a limit's numbers come from.
func (d *Demo) rulesAt(i int, key, path, limit string) (source string, err error) {
	a := d.Do(http.MethodPost, d.GatewayDecide[i]+"/v1/decide", "", map[string]any{"key": key, "method": http.MethodGet, "path": path})
	if a.Status != http.StatusOK && a.Status != http.StatusTooManyRequests {
		return "", fmt.Errorf("gateway %d: status %d: %s", i+1, a.Status, a.Body)
	}
	limits, _ := a.JSON(d.t)["limits"].([]any)
	for _, l := range limits {
		if m, _ := l.(map[string]any); str(m, "id") == limit {
			return str(m, "source"), nil
		}
	}
	return "", fmt.Errorf("gateway %d: no limit %s in %s", i+1, limit, a.Body)
}

// redisNow is the clock that overrides end by.
func redisNow(t *testing.T, c *redis.Client) time.Time {
	t.Helper()
	now, err := c.Time(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// slowly is a policy on which a bucket that is empty stays so for a minute.
func slowly(routes int) string {
	var b strings.Builder
	b.WriteString(`apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 1/minute, burst: 1}]
  bronze:
    limits: [{name: requests, per: tenant, counts: requests, rate: 1000/second, burst: 1000}]
  pro: {}
  enterprise: {}
routes:
`)
	for i := range routes {
		fmt.Fprintf(&b, `  - {name: r%d, match: ["GET /r%d"], identity: api_key, motive: fairness, limits: [{name: l, per: tenant, rate: 1000/second, burst: 1000}], on_store_failure: {mode: closed}}
`, i, i)
	}
	b.WriteString(`  - {name: everything, match: ["/"], identity: api_key, motive: fairness, on_store_failure: {mode: closed}}
`)
	return b.String()
}

// TestOverride_ReachesEveryGatewayAndEndsByRedisClockWithoutAPush holds both
// halves of what a value of its own is worth: a tenant that is refused everywhere,
// and whose refusal every gateway remembers, is let in at once; and the value ends
// at its moment while no console runs.
func TestOverride_ReachesEveryGatewayAndEndsByRedisClockWithoutAPush(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	d.Publish(slowly(0))
	tenant, _ := d.NewTenant("Overridden", "free")
	base := "/api/v1/tenants/" + tenant.ID
	for i := range d.Gateways {
		eventually(t, 10*time.Second, "the key is known", func() error {
			if a := d.Hit(i, tenant.Key, "/v1/items"); a.Status != http.StatusOK && a.Status != http.StatusTooManyRequests {
				return fmt.Errorf("status %d", a.Status)
			}
			return nil
		})
	}
	for i := range d.Gateways {
		for range 2 { // the second time from memory
			if a := d.Hit(i, tenant.Key, "/v1/items"); a.Status != http.StatusTooManyRequests {
				t.Fatalf("gateway %d: status %d on an empty bucket", i+1, a.Status)
			}
		}
	}
	from := time.Now()
	got := d.MustAPI(http.StatusOK, http.MethodPut, base+"/overrides/plan.requests?wait=converged", map[string]any{"rate": "6000/minute", "burst": 100, "reason": "launch"})
	if num(got, "accepted_on") != len(d.Gateways) || num(got, "of") != len(d.Gateways) {
		t.Errorf("told of %v of %v gateways", got["accepted_on"], got["of"])
	}
	for i := range d.Gateways {
		eventually(t, 5*time.Second, "the tenant is let in", func() error {
			if a := d.Hit(i, tenant.Key, "/v1/items"); a.Status != http.StatusOK {
				return fmt.Errorf("gateway %d: status %d", i+1, a.Status)
			}
			return nil
		})
	}
	took(t, "let in on all gateways", time.Since(from), time.Second)

	clock := d.RedisClient()
	end := redisNow(t, clock).Add(6 * time.Second)
	set := d.MustAPI(http.StatusOK, http.MethodPut, base+"/overrides/plan.requests?wait=converged",
		map[string]any{"rate": "6000/minute", "burst": 100, "reason": "launch", "expires_at": end.UTC()})
	if num(set, "accepted_on") != len(d.Gateways) {
		t.Fatalf("told of %v of %v gateways", set["accepted_on"], set["of"])
	}
	d.Kill(d.Processes.Console) // so that nobody can push anything
	var all sync.WaitGroup
	for i := range d.Gateways {
		all.Go(func() { d.endsAt(t, clock, i, tenant.Key, end) })
	}
	all.Wait()
}

// endsAt watches a gateway over the end of an override. Redis' clock is read before
// and after each answer; slack is how well a gateway knows that clock.
func (d *Demo) endsAt(t *testing.T, clock *redis.Client, i int, key string, end time.Time) {
	const slack = 100 * time.Millisecond
	before, after := 0, 0
	for deadline := time.Now().Add(30 * time.Second); after < 5; {
		if time.Now().After(deadline) {
			t.Errorf("gateway %d: %d answers before the end and %d after it", i+1, before, after)
			return
		}
		asked, err := clock.Time(context.Background()).Result()
		if err != nil {
			t.Error(err)
			return
		}
		source, err := d.rulesAt(i, key, "/v1/items", "plan.requests")
		if err != nil {
			t.Error(err)
			return
		}
		answered, err := clock.Time(context.Background()).Result()
		if err != nil {
			t.Error(err)
			return
		}
		switch {
		case answered.Before(end.Add(-slack)):
			before++
			if source != "override" {
				t.Errorf("gateway %d: %s before the end the numbers are those of %s", i+1, end.Sub(answered), source)
				return
			}
		case asked.After(end.Add(slack)):
			after++
			if source != "plan free" {
				t.Errorf("gateway %d: %s after the end the numbers are those of %q", i+1, asked.Sub(end), source)
				return
			}
		}
	}
	if before == 0 {
		t.Errorf("gateway %d was never asked before the end", i+1)
	}
}

// A record with as many overrides as there may be is read by every gateway.
func TestOverride_AHundredOfOneTenantHoldOnEveryGateway(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	d.Publish(slowly(100))
	tenant, _ := d.NewTenant("Many", "bronze")
	base := "/api/v1/tenants/" + tenant.ID
	reason := strings.Repeat("because ", 42) // 336 bytes each: the record has some 40 KiB
	for i := range 100 {
		d.MustAPI(http.StatusOK, http.MethodPut, fmt.Sprintf("%s/overrides/route:r%d.l", base, i), map[string]any{"rate": fmt.Sprintf("%d/second", 2000+i), "reason": reason})
	}
	more := d.MustAPI(http.StatusUnprocessableEntity, http.MethodPut, base+"/overrides/plan.requests", map[string]any{"rate": "2000/second", "reason": "one more"})
	if !strings.Contains(fmt.Sprint(more["detail"]), "100") {
		t.Errorf("one too many: %v", more)
	}
	size, err := d.RedisClient().StrLen(context.Background(), "hg:tenant:"+tenant.ID).Result()
	if err != nil || size < 30<<10 || size > 64<<10 {
		t.Errorf("the record has %d bytes (%v)", size, err)
	}
	for i := range d.Gateways {
		for _, route := range []int{0, 50, 99} {
			limit := fmt.Sprintf("route:r%d.l", route)
			eventually(t, 10*time.Second, "the override holds", func() error {
				source, err := d.rulesAt(i, tenant.Key, fmt.Sprintf("/r%d", route), limit)
				if err == nil && source != "override" {
					err = fmt.Errorf("gateway %d: %s comes from %s", i+1, limit, source)
				}
				return err
			})
		}
	}
}
