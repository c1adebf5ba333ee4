package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/web/webtest"
)

// lockedOut has a tenant refused by its plan, with a gateway that told of it.
func lockedOut(w *webtest.World, tenant string) {
	row := limiter.Row{Kind: limiter.RowTenant, Tenant: tenant}
	w.State.Plant(limiter.Ask{Part: limiter.PartCharge, Row: row, Hash: policy.LimitHash("plan.requests")}, limiter.Held{TTLMillis: 1000})
	now := w.Now().UnixMicro()
	w.Feed.Tell(&usage.RefusedReport{Replica: "gw_aaaaaaaaaaaaaaaa", Since: now - 5_000_000, At: now, Limits: []usage.RefusedLimit{
		{Limit: "plan.requests", Subjects: []usage.RefusedCount{{Refused: usage.Refused{Row: usage.RefusedRow{Kind: "t", Tenant: tenant}, Part: "rate", Cost: 1},
			Count: 1240, Error: 40, First: now - 4_000_000, Last: now}}},
		{Limit: "credentials.invalid", Subjects: []usage.RefusedCount{{Refused: usage.Refused{Row: usage.RefusedRow{Kind: "i", Subject: "203.0.113.77"}, Part: "credentials", Cost: 1,
			Until: now + 60_000_000}, Count: 7, First: now - 4_000_000, Last: now}}},
	}})
}

var lockoutLink = regexp.MustCompile(`href="(/lockouts/lko_[a-z2-7]+)"`)

func TestLockouts_FromTheListToTheUnlock(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	lockedOut(w, tenant.ID)
	c := w.As(t, console.RoleSupport)
	list := c.Get("/lockouts")
	wants(t, list, http.StatusOK, "Refused now", "All 2", "Tenants 1", "IPs 1", "plan.requests", "1\u202f200 to 1\u202f240", "Acme", "203.0.113.77", "told by 1 of 3 gateways", `hx-get="/live/lockouts"`)
	wants(t, c.Get("/live/lockouts?kind=tenants"), http.StatusOK, "plan.requests", `hx-get="/live/lockouts?kind=tenants"`)
	wants(t, c.Get("/lockouts?kind=global"), http.StatusOK, "Nobody of this kind", "Show all")
	tenants := c.Get("/lockouts?kind=tenants")
	if strings.Contains(tenants.Text, "203.0.113.77") {
		t.Error("the tab of tenants shows an address")
	}
	page := lockoutLink.FindStringSubmatch(tenants.Text)[1]
	wants(t, c.Get(page), http.StatusOK, "Unlock", "Its bucket is filled from 0 to 500", "State of the limits", "A reset loses", "that 500 tokens are used", "/boost?limit=plan.requests")
	wants(t, c.Post(page+"/unlock", url.Values{"reason": {" "}}), http.StatusUnprocessableEntity, `id="unlock-reason-error"`)
	wants(t, c.Post(page+"/extend", url.Values{"reason": {"an attack"}, "for": {"x"}}), http.StatusUnprocessableEntity, "Choose for how long", `value="an attack"`)
	wants(t, c.Post(page+"/extend", url.Values{"reason": {"an attack"}, "for": {"1h"}}), http.StatusSeeOther)
	wants(t, c.Get(page), http.StatusOK, "Kept out for longer: known on 3 of 3 gateways after", "in 1 h")
	wants(t, c.Post(page+"/unlock", url.Values{"reason": {"they called"}}), http.StatusSeeOther)
	wants(t, c.Get("/lockouts?kind=tenants"), http.StatusOK, "Unlocked: known on 3 of 3 gateways after", "Nobody of this kind")
	wants(t, c.Get(page), http.StatusNotFound, "This lockout has ended")
	wants(t, c.Get("/audit?action=lockout"), http.StatusOK, "lockout.unlock", "they called")
}

// TestLockouts_AViewerSeesMaskedSubjectsAndNoActs goes red when masking is taken out.
func TestLockouts_AViewerSeesMaskedSubjectsAndNoActs(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	lockedOut(w, tenant.ID)
	c := w.As(t, console.RoleViewer)
	list := c.Get("/lockouts")
	wants(t, list, http.StatusOK, "203.0.113.0/24", "masked for your role")
	for _, link := range lockoutLink.FindAllStringSubmatch(list.Text, -1) {
		page := c.Get(link[1])
		if page.StatusCode != http.StatusOK || strings.Contains(page.Text, "203.0.113.77") || strings.Contains(page.Text, `action="`+link[1]+"/unlock") {
			t.Errorf("%s: %d shows too much", link[1], page.StatusCode)
		}
		wants(t, c.Post(link[1]+"/unlock", url.Values{"reason": {"r"}}), http.StatusForbidden)
	}
	if strings.Contains(list.Text+c.Get("/live/lockouts").Text, "203.0.113.77") {
		t.Error("the list shows an address in full")
	}
}

func TestLockouts_StateOfATenantIsShownAndReset(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	lockedOut(w, tenant.ID)
	c := w.As(t, console.RoleSupport)
	page := "/tenants/" + tenant.ID + "/state"
	wants(t, c.Get(page), http.StatusOK, "Limiter state", "500 of 500 tokens", "that 500 tokens are used", "Reset what is ticked")
	wants(t, c.Post(page+"/reset", url.Values{"reason": {"wild"}}), http.StatusUnprocessableEntity, "Choose what to reset", `value="wild"`)
	wants(t, c.Post(page+"/reset", url.Values{"reason": {""}, "limits": {"plan.requests"}}), http.StatusUnprocessableEntity, "Say why")
	wants(t, c.Post(page+"/reset", url.Values{"reason": {"wild"}, "limits": {"plan.requests"}}), http.StatusSeeOther)
	wants(t, c.Get(page), http.StatusOK, "Reset: known on 3 of 3 gateways after", "0 of 500 tokens", "nothing: there is no state")
	wants(t, c.Post(page+"/release", url.Values{"reason": {"r"}, "limit": {"plan.requests"}, "lease": {"x"}}), http.StatusUnprocessableEntity)
	wants(t, c.Get("/tenants/ten_aaaaaaaaaaaaaaaa/state"), http.StatusNotFound)
	if viewer := w.As(t, console.RoleViewer).Get(page); strings.Contains(viewer.Text, "Reset what is ticked") {
		t.Error("a viewer is offered a reset")
	}
}

func TestLockouts_StateWithoutATTLStandsOnTopInRed(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	c := w.As(t, console.RoleSupport)
	if a := c.Get("/lockouts"); strings.Contains(a.Text, "have no TTL") {
		t.Error("there is nothing to repair, and it is offered")
	}
	w.State.PlantStrays("hg:l:{3}:t:<b>", "hg:l:{4}:i:\xff\x00")
	w.LookForStrays(t)
	a := c.Get("/lockouts")
	wants(t, a, http.StatusOK, "2 keys of the limiter's state have no TTL", `banner bad`, "Repair", `\xff\x00`)
	if strings.Contains(a.Text, "t:<b>") {
		t.Error("a key is written unescaped")
	}
	wants(t, c.Post("/lockouts/repair", url.Values{"reason": {""}}), http.StatusUnprocessableEntity, `id="repair-reason-error"`)
	wants(t, c.Post("/lockouts/repair", url.Values{"reason": {"planted"}}), http.StatusSeeOther)
	wants(t, c.Get("/lockouts"), http.StatusOK, "Repaired 2 keys.")
}

func TestLockouts_WithoutRedisThePageSaysUnknown(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	lockedOut(w, tenant.ID)
	c := w.As(t, console.RoleSupport)
	page := lockoutLink.FindStringSubmatch(c.Get("/lockouts").Text)[1]
	w.Feed.Down(true)
	w.State.Down(true)
	w.Advance(3 * time.Second)
	wants(t, c.Get("/lockouts"), http.StatusOK, "who is refused now is unknown")
	wants(t, c.Get("/tenants/"+tenant.ID+"/state"), http.StatusOK, "Redis cannot be asked")
	if a := c.Get(page); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%d", a.StatusCode)
	}
}
