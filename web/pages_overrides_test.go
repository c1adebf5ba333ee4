package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

// overrideOf is the page of the newest override of a tenant.
func overrideOf(t *testing.T, w *webtest.World, tenant string) string {
	t.Helper()
	live, _, err := w.Web.Overrides.OfTenant(t.Context(), tenant, 1)
	if err != nil || len(live) == 0 {
		t.Fatalf("%d overrides, %v", len(live), err)
	}
	return "/overrides/" + live[0].ID
}

func TestOverrides_BoostFromThePageToItsEnd(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleSupport)
	wants(t, c.Get("/tenants/"+tenant.ID), http.StatusOK, "/boost?limit=plan.requests", "6000/minute")
	boost := "/tenants/" + tenant.ID + "/boost"
	wants(t, c.Get(boost+"?limit=plan.requests"), http.StatusOK, `value="plan.requests" selected`, `value="2000" selected`, `value="1h" selected`, "In force now: 6000/minute", "up to ×2 for 24 hours")
	form := url.Values{"limit": {"plan.requests"}, "factor": {"2000"}, "for": {"1h"}, "reason": {""}}
	wants(t, c.Post(boost, form), http.StatusUnprocessableEntity, `id="f-reason-error"`)
	form.Set("reason", "launch day")
	form.Set("factor", "x")
	wants(t, c.Post(boost, form), http.StatusUnprocessableEntity, `id="f-factor-error"`, `value="launch day"`)
	form.Set("factor", "10000")
	if a := c.Post(boost, form); a.StatusCode == http.StatusSeeOther || a.StatusCode >= 500 {
		t.Fatalf("support boosts tenfold: %d", a.StatusCode)
	}
	form.Set("factor", "2000")
	wants(t, c.Post(boost, form), http.StatusSeeOther)
	wants(t, c.Get("/tenants/"+tenant.ID), http.StatusOK, "Boosted: in force on 3 of 3 gateways after", "12000/minute", "plan pro", "boost", "launch day")
	wants(t, c.Get("/tenants"), http.StatusOK, "next ends")
	wants(t, c.Get("/overrides"), http.StatusOK, "Acme", "launch day", "×2", "in 59 min")
	wants(t, c.Get("/overrides?kind=override"), http.StatusOK, "No override matches the filter.")
	page := overrideOf(t, w, tenant.ID)
	wants(t, c.Post(page+"/end", url.Values{"reason": {" "}}), http.StatusUnprocessableEntity, `id="end-reason-error"`)
	wants(t, c.Post(page+"/extend", url.Values{"expires_at": {"soon"}, "reason": {"more"}}), http.StatusUnprocessableEntity, "YYYY-MM-DD", `value="more"`)
	wants(t, c.Post(page+"/end", url.Values{"reason": {"over"}}), http.StatusSeeOther)
	wants(t, c.Get(page), http.StatusOK, "Ended: known on 3 of 3 gateways after", "over")
	wants(t, c.Post(page+"/end", url.Values{"reason": {"again"}}), http.StatusUnprocessableEntity, "ended already")
	wants(t, c.Get("/tenants/"+tenant.ID+"/overrides"), http.StatusOK, "over", "launch day", "no value of its own and no boost")
}

func TestOverrides_ALowerValueAsksTwice(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleKeyAdmin)
	page := "/tenants/" + tenant.ID + "/override"
	wants(t, c.Get(page), http.StatusOK, `name="limit"`, "plan.requests (6000/minute")
	wants(t, c.Get(page+"?limit=plan.requests"), http.StatusOK, `name="rate"`, `name="burst"`)
	wants(t, c.Get(page+"?limit=plan.nothing"), http.StatusUnprocessableEntity, "meets no limit of this name")
	form := url.Values{"limit": {"plan.requests"}, "rate": {"60/minute"}, "burst": {"ten"}, "reason": {"abuse"}}
	wants(t, c.Post(page, form), http.StatusUnprocessableEntity, `id="f-burst-error"`, `value="60/minute"`)
	form.Set("burst", "10")
	a := c.Post(page, form)
	wants(t, a, http.StatusUnprocessableEntity, `name="lower"`, `value="60/minute"`, "6000/minute")
	form.Set("lower", "yes")
	wants(t, c.Post(page, form), http.StatusSeeOther)
	wants(t, c.Get("/tenants/"+tenant.ID+"/overrides"), http.StatusOK, "Set: in force on 3 of 3 gateways after", "60/minute, burst 10", "abuse")
	wants(t, c.Post(overrideOf(t, w, tenant.ID)+"/extend", url.Values{"expires_at": {"2031-01-31"}, "reason": {"longer"}}), http.StatusSeeOther)
	wants(t, c.Get(overrideOf(t, w, tenant.ID)), http.StatusOK, "Extended: known on 3 of 3")
}

func TestOverrides_ButtonsAreAbsentWhereTheRoleMayNot(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	owner := w.As(t, console.RoleOwner)
	wants(t, owner.Post("/tenants/"+tenant.ID+"/override", url.Values{"limit": {"plan.requests"}, "rate": {"9000/minute"}, "reason": {"contract"}}), http.StatusSeeOther)
	page := overrideOf(t, w, tenant.ID)
	for role, may := range map[console.Role]bool{console.RoleViewer: false, console.RoleSupport: false, console.RoleKeyAdmin: true} {
		c := w.As(t, role)
		if got := strings.Contains(c.Get(page).Text, page+"/end"); got != may {
			t.Errorf("%s sees the button that ends an override: %v", role, got)
		}
		if got := strings.Contains(c.Get("/tenants/"+tenant.ID).Text, "/override?limit="); got != may {
			t.Errorf("%s sees the link that sets a value: %v", role, got)
		}
	}
	if a := w.As(t, console.RoleSupport).Post(page+"/end", url.Values{"reason": {"x"}}); a.StatusCode != http.StatusForbidden {
		t.Errorf("support ends an override: %d", a.StatusCode)
	}
}
