package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// refusing is a policy on which whatever is used up stays so for an hour.
const refusing = `apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 5/hour, burst: 5}]
  bronze: {}
  pro: {}
  enterprise: {}
routes:
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: per-ip, per: ip, rate: 3/hour, burst: 3}]
    on_store_failure: {mode: closed}
  - name: slow
    match: ["GET /slow"]
    identity: api_key
    motive: fairness
    concurrency: {per: tenant, max: 1, lease: 10m}
    on_store_failure: {mode: closed}
  - name: everything
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: closed}
`

// decide asks a gateway and reports whether it admits.
func (d *Demo) decide(i int, body map[string]any) bool {
	d.t.Helper()
	a := d.Do(http.MethodPost, d.GatewayDecide[i]+"/v1/decide", "", body)
	allowed, told := a.JSON(d.t)["allowed"].(bool)
	if !told {
		d.t.Fatalf("gateway %d: status %d: %s", i+1, a.Status, a.Body)
	}
	return allowed
}

// refusedEverywhere asks each gateway until all refuse from what they remember.
func (d *Demo) refusedEverywhere(body map[string]any) {
	d.t.Helper()
	for i := range d.GatewayDecide {
		for n := 0; d.decide(i, body); n++ {
			if n > 20 {
				d.t.Fatalf("gateway %d goes on admitting", i+1)
			}
		}
		d.decide(i, body)
	}
}

// lockoutBy is the one lockout by a limit, once a gateway has told of it.
func (d *Demo) lockoutBy(limit string) map[string]any {
	d.t.Helper()
	var found map[string]any
	eventually(d.t, 20*time.Second, "the lockout by "+limit, func() error {
		items, _ := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/lockouts?limit_id="+limit, nil)["items"].([]any)
		if len(items) != 1 {
			return fmt.Errorf("%d lockouts by %s", len(items), limit)
		}
		found, _ = items[0].(map[string]any)
		return nil
	})
	return found
}

// TestLockouts_UnlockedSubjectsAreAdmittedOnThreeGatewaysThatRememberedTheRefusal: R-130. A
// tenant and an address are refused by all gateways from what they remember; each unlock
// lets its subject through on all of them, and the other stays refused.
func TestLockouts_UnlockedSubjectsAreAdmittedOnThreeGatewaysThatRememberedTheRefusal(t *testing.T) {
	t.Parallel()
	d := StartDemo(t)
	d.Publish(refusing)
	tenant, _ := d.NewTenant("Blocked", "free")
	byKey := map[string]any{"key": tenant.Key, "method": "GET", "path": "/v1/items"}
	byIP := map[string]any{"method": "POST", "path": "/login", "ip": "203.0.113.77"}
	eventually(t, 20*time.Second, "the policy and the key on every gateway", func() error {
		for i := range d.GatewayDecide {
			if _, err := d.rulesAt(i, tenant.Key, "/v1/items", "plan.requests"); err != nil {
				return err
			}
		}
		return nil
	})
	d.refusedEverywhere(byKey)
	d.refusedEverywhere(byIP)
	if l := d.lockoutBy("plan.requests"); str(l, "subject") != tenant.ID || l["verified"] != true || l["until"] == nil || l["can_unlock"] != true {
		t.Errorf("%v", l)
	}
	address := d.lockoutBy("route:login.per-ip")
	if str(address, "subject") != "203.0.113.77" || str(address, "kind") != "ips" {
		t.Errorf("%v", address)
	}

	from := time.Now()
	done := d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/lockouts/unlock?wait=converged", map[string]any{"id": address["id"], "reason": "they called"})
	if done["accepted_on"] != 3.0 || done["of"] != 3.0 || done["after"] != 3.0 {
		t.Errorf("unlock = %v", done)
	}
	for i := range d.GatewayDecide {
		if !d.decide(i, byIP) {
			t.Errorf("gateway %d refuses the address still, %v after it was asked", i+1, time.Since(from))
		}
		if d.decide(i, byKey) {
			t.Errorf("gateway %d admits the tenant, too", i+1)
		}
	}
	done = d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/lockouts/unlock?wait=converged", map[string]any{"limit": "plan.requests", "subject": tenant.ID, "reason": "they called"})
	if done["accepted_on"] != 3.0 || done["after"] != 5.0 {
		t.Errorf("unlock = %v", done)
	}
	for i := range d.GatewayDecide {
		if !d.decide(i, byKey) {
			t.Errorf("gateway %d refuses the tenant still", i+1)
		}
	}
	if raw := d.API(http.MethodGet, "/api/v1/audit?limit=10", nil).Body; strings.Count(string(raw), `"lockout.unlock"`) != 2 || strings.Contains(string(raw), "203.0.113.77") {
		t.Errorf("the trail: %s", raw)
	}
}

// TestLockouts_LeasesAreNamedAndReleasedAndPlantedStateIsRepaired: R-032 from the outside.
func TestLockouts_LeasesAreNamedAndReleasedAndPlantedStateIsRepaired(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=1")
	d.Publish(refusing)
	tenant, _ := d.NewTenant("Slow", "free")
	slow := map[string]any{"key": tenant.Key, "method": "GET", "path": "/slow"}
	eventually(t, 20*time.Second, "a place is taken", func() error {
		if a := d.Do(http.MethodPost, d.GatewayDecide[0]+"/v1/decide", "", slow); a.Status != http.StatusOK || a.JSON(t)["allowed"] != true {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	if d.decide(0, slow) {
		t.Fatal("a second place was given")
	}
	if l := d.lockoutBy("route:slow.concurrency"); l["can_unlock"] != nil && l["can_unlock"] != false || l["left"] != 0.0 {
		t.Errorf("%v", l)
	}
	var lease map[string]any
	limits, _ := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/tenants/"+tenant.ID+"/state", nil)["limits"].([]any)
	for _, l := range limits {
		if m, _ := l.(map[string]any); str(m, "limit") == "route:slow.concurrency" {
			leases, _ := m["leases"].([]any)
			lease, _ = leases[0].(map[string]any)
		}
	}
	if str(lease, "gateway") != d.replicaIDs()[0] || lease["since"] == nil {
		t.Errorf("lease = %v", lease)
	}
	d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/tenants/"+tenant.ID+"/state/release", map[string]any{"limit": "route:slow.concurrency", "leases": []any{lease["id"]}, "reason": "it hangs"})
	if !d.decide(0, slow) {
		t.Error("the place is not free")
	}

	redis := d.RedisClient()
	planted := "hg:l:{7}:t:ten_planted"
	if err := redis.Set(context.Background(), planted, "999", 0).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the planted key to be found", func() error {
		if n := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/lockouts", nil)["strays"]; n != 1.0 {
			return fmt.Errorf("%v found", n)
		}
		return nil
	})
	if done := d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/lockouts/repair", map[string]any{"reason": "planted"}); done["repaired"] != 1.0 {
		t.Errorf("%v", done)
	}
	if ttl := redis.PTTL(context.Background(), planted).Val(); ttl == -1 {
		t.Error("it has no TTL still")
	}
}
