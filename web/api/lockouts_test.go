package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/web/webtest"
)

// lockedOut has a tenant's bucket empty, a place taken, and a gateway that told of both.
func lockedOut(w *webtest.World, tenant string) limiter.Ask {
	row := limiter.Row{Kind: limiter.RowTenant, Tenant: tenant}
	ask := limiter.Ask{Part: limiter.PartCharge, Row: row, Hash: policy.LimitHash("plan.requests")}
	w.State.Plant(ask, limiter.Held{TTLMillis: 1000, Units: 0})
	now := w.Now().UnixMicro()
	w.Feed.Tell(&usage.RefusedReport{Replica: "gw_aaaaaaaaaaaaaaaa", Since: now - 5_000_000, At: now, Limits: []usage.RefusedLimit{{Limit: "plan.requests", Total: 9, Subjects: []usage.RefusedCount{{
		Refused: usage.Refused{Row: usage.RefusedRow{Kind: "t", Tenant: tenant}, Part: "rate", Cost: 1, Route: "everything"}, Count: 9, Error: 2, First: now - 4_000_000, Last: now}}}}})
	return ask
}

func TestAPI_LockoutsAreListedAndUnlocked(t *testing.T) {
	t.Parallel()
	w, owner, id := published(t)
	lockedOut(w, id)
	v := obj(t, owner.Get("/api/v1/lockouts?kind=tenants"), 200)
	items := v["items"].([]any)
	if len(items) != 1 || at(items[0], "limit") != "plan.requests" || at(items[0], "subject") != id || at(items[0], "refusals") != 9.0 || at(items[0], "error") != 2.0 ||
		at(items[0], "verified") != true || at(items[0], "until") == nil || at(items[0], "can_unlock") != true || v["reported"] != 1.0 || v["of"] != 3.0 {
		t.Fatalf("%v", v)
	}
	if got := obj(t, owner.Get("/api/v1/lockouts?kind=ips"), 200)["items"].([]any); len(got) != 0 {
		t.Errorf("addresses: %v", got)
	}
	v = obj(t, w.API(t, console.RoleSupport).JSON("POST", "/api/v1/lockouts/unlock?wait=converged", `{"limit":"plan.requests","subject":"`+id+`","reason":"they called"}`), 200)
	if v["before"] != 0.0 || v["after"] != 60.0 || v["accepted_on"] != 3.0 || v["until"] != nil || at(v, "lockout", "limit") != "plan.requests" {
		t.Errorf("unlock = %v", v)
	}
	if got := obj(t, owner.Get("/api/v1/lockouts"), 200)["items"].([]any); len(got) != 0 {
		t.Errorf("after the unlock: %v", got)
	}
}

func TestAPI_LockoutsAreProlonged(t *testing.T) {
	t.Parallel()
	w, owner, id := published(t)
	lockedOut(w, id)
	v := obj(t, owner.JSON("POST", "/api/v1/lockouts/extend", `{"limit":"plan.requests","subject":"`+id+`","for":"1h","reason":"an attack"}`), 200)
	until, err := time.Parse(time.RFC3339, at(v, "until").(string))
	if left := time.Until(until); err != nil || left < 59*time.Minute || left > 62*time.Minute {
		t.Errorf("%v: %v", v, err)
	}
}

func TestAPI_ATenantsStateIsToldResetAndReleased(t *testing.T) {
	t.Parallel()
	w, owner, id := published(t)
	lockedOut(w, id)
	base := "/api/v1/tenants/" + id + "/state"
	limits := obj(t, owner.Get(base), 200)["limits"].([]any)
	if len(limits) != 1 || at(limits[0], "limit") != "plan.requests" || at(limits[0], "used") != 60.0 || at(limits[0], "most") != 60.0 || at(limits[0], "full_at") == nil {
		t.Fatalf("%v", limits)
	}
	v := obj(t, owner.JSON("POST", base+"/reset?wait=converged", `{"limits":["plan.requests"],"reason":"wild"}`), 200)
	if reset := v["reset"].([]any); len(reset) != 1 || at(reset[0], "before") != 0.0 || at(reset[0], "after") != 60.0 || at(reset[0], "accepted_on") != 3.0 {
		t.Errorf("%v", v)
	}
	if limits := obj(t, owner.Get(base), 200)["limits"].([]any); at(limits[0], "used") != 0.0 {
		t.Errorf("after: %v", limits)
	}
	a := owner.JSON("POST", base+"/release", `{"limit":"plan.requests","leases":["x"],"reason":"r"}`)
	if a.StatusCode != 422 || !strings.Contains(a.Text, "concurrency") {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
}

func TestAPI_StateWithoutATTLIsRepaired(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	if a := owner.JSON("POST", "/api/v1/lockouts/repair", `{"reason":"r"}`); a.StatusCode != 409 {
		t.Errorf("nothing to repair: %d %s", a.StatusCode, a.Text)
	}
	w.State.PlantStrays("hg:l:{3}:t:ten_x")
	w.LookForStrays(t)
	if v := obj(t, owner.Get("/api/v1/lockouts"), 200); v["strays"] != 1.0 {
		t.Errorf("%v", v)
	}
	if v := obj(t, owner.JSON("POST", "/api/v1/lockouts/repair", `{"reason":"planted"}`), 200); v["repaired"] != 1.0 {
		t.Errorf("%v", v)
	}
}

func TestAPI_LockoutsBadInputAndRoles(t *testing.T) {
	t.Parallel()
	w, owner, id := published(t)
	lockedOut(w, id)
	for _, c := range []struct {
		path, body string
		status     int
		word       string
	}{
		{"/unlock", `{"limit":"plan.requests","subject":"` + id + `","reason":""}`, 422, "reason"},
		{"/unlock", `{"subject":"` + id + `","reason":"r"}`, 422, "limit"},
		{"/unlock", `{"limit":"plan.requests","reason":"r"}`, 422, "subject"},
		{"/unlock", `{"id":"lko_nothing","reason":"r"}`, 404, ""},
		{"/unlock", `{"limit":"plan.requests","subject":"ten_aaaaaaaaaaaaaaaa","reason":"r"}`, 404, ""},
		{"/extend", `{"limit":"plan.requests","subject":"` + id + `","for":"soon","reason":"r"}`, 422, "for"},
		{"/extend", `{"limit":"plan.requests","subject":"` + id + `","for":"25h","reason":"r"}`, 422, "24 hours"},
		{"/unlock", `{"limit":"plan.requests","subject":"` + id + `","reason":"r","more":1}`, 422, "more"},
	} {
		a := owner.JSON("POST", "/api/v1/lockouts"+c.path, c.body)
		if a.StatusCode != c.status || !strings.Contains(a.Text, c.word) {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.StatusCode, a.Text)
		}
	}
	for _, role := range console.Roles() {
		a := w.API(t, role).JSON("POST", "/api/v1/lockouts/unlock", `{"id":"lko_nothing","reason":"r"}`)
		if want := map[bool]int{true: 404, false: 403}[role.Can(console.PermUnlock)]; a.StatusCode != want {
			t.Errorf("%s: %d", role, a.StatusCode)
		}
	}
	w.Feed.Down(true)
	w.Advance(5 * time.Second)
	if a := owner.Get("/api/v1/lockouts"); a.StatusCode != 503 {
		t.Errorf("without Redis: %d %s", a.StatusCode, a.Text)
	}
}
