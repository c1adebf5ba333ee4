package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web"
	"github.com/headgate/headgate/web/webtest"
)

// withEveryPart is a world where everyPart is in force, with a tenant on a plan.
func withEveryPart(t *testing.T, plan, source string) (*webtest.World, console.Tenant) {
	t.Helper()
	w := webtest.New(t)
	w.Feed.Gateways(3)
	owner := w.Actor(console.RoleOwner)
	if _, err := w.Web.Policies.Publish(t.Context(), owner, []byte(source), nil, 0, console.PublishOptions{Note: "first"}); err != nil {
		t.Fatal(err)
	}
	tenant, err := w.Web.Tenants.Create(t.Context(), owner, console.NewTenant{Name: "Acme", Plan: plan, TimeZone: "UTC"})
	if err != nil {
		t.Fatal(err)
	}
	return w, tenant
}

func TestGateways_AShareOfTheLimitsIsNotToldAsNothing(t *testing.T) {
	t.Parallel()
	w, _ := withEveryPart(t, "free", everyPart)
	a := w.As(t, console.RoleViewer).Get("/gateways")
	wants(t, a, http.StatusOK, "Each gateway admits a share of the limits in force", "Everything is admitted and counted.")
	if strings.Contains(a.Text, "admits 0") {
		t.Errorf("a route that falls back to a share is said to admit nothing:\n%s", a.Text)
	}
}

func TestTenant_LimitsInForceTellQuotasPlacesAndWhatOnlyLooks(t *testing.T) {
	t.Parallel()
	w, tenant := withEveryPart(t, "free", strings.Replace(everyPart, "lease: 1m30s, mode: shadow", "lease: 1m30s", 1))
	owner := w.As(t, console.RoleOwner)
	own := []string{"plan.quota", "100000 a month", "route:report.concurrency", "2 at once"}
	wants(t, owner.Get("/tenants/"+tenant.ID), http.StatusOK, append(own, "until 2027-01-31 12:00:00 UTC", "then refused", "shared:search", "shadow: refuses nobody")...)
	view := owner.Get("/tenants/" + tenant.ID + "/view-as/limits")
	wants(t, view, http.StatusOK, own...)
	if strings.Contains(view.Text, "shadow") || strings.Contains(view.Text, "shared:search") {
		t.Errorf("a tenant is told of a limit that is only tried out:\n%s", view.Text)
	}
}

func TestTenant_LimitsInForceTellHowAComputedCostIsFound(t *testing.T) {
	t.Parallel()
	source := strings.NewReplacer("match: [\"POST /chat\"]", "match: [\"POST /chat\"]\n    limits: [{name: tokens, per: tenant, rate: 500/minute}]",
		"match: [\"POST /graphql\"]", "match: [\"POST /graphql\"]\n    limits: [{name: points, per: tenant, rate: 500/minute}]").Replace(everyPart)
	w, tenant := withEveryPart(t, "free", source)
	wants(t, w.As(t, console.RoleViewer).Get("/tenants/"+tenant.ID), http.StatusOK, "by query, ≤ 50", "50, settled")
}

func TestOverview_LimitFactsTellQuotasAndPlaces(t *testing.T) {
	t.Parallel()
	c, err := policy.Compile(parts(t))
	if err != nil {
		t.Fatal(err)
	}
	rates, modes := web.LimitFacts(c)
	if got := rates["plan.quota"]; got != "per plan" {
		t.Errorf("quota: %q; the plans have different ones", got)
	}
	if rates["route:report.concurrency"] != "2 at once" || modes["route:report.concurrency"] != "open" {
		t.Errorf("places: %q, %q", rates["route:report.concurrency"], modes["route:report.concurrency"])
	}
}

// Whoever added a limit by mistake can take it away again as it stands.
func TestDraft_ALimitIsRemovedWithItsMistakes(t *testing.T) {
	t.Parallel()
	e := withParts(t, everyPart)
	f := e.form(t, e.editor, "route/report")
	f.Set("l0-count", "1e3")
	f.Set("l1-burst", "77")
	f.Set("act", "remove-limit-0")
	if a := e.editor.Post(e.at("route/report"), f); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.StatusCode, a.Text)
	}
	limits := e.stored(t).Routes[0].Limits
	if len(limits) != 1 || limits[0].Name != "steady" || limits[0].Burst != 77 {
		t.Errorf("left is %+v", limits)
	}
	for _, act := range []string{"remove-limit-9", "remove-limit--1", "remove-limit-x"} {
		f = e.form(t, e.editor, "route/report")
		f.Set("act", act)
		e.editor.Post(e.at("route/report"), f)
		if n := len(e.stored(t).Routes[0].Limits); n != 1 {
			t.Errorf("%s leaves %d limits", act, n)
		}
	}
}

// A part of a page is found by its name, so no two may share one.
func TestDraft_LandmarksHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	e := withParts(t, strings.NewReplacer("uses: [search]", "uses: [serch]", "X-User-Id", "X-Forwarded-For").Replace(everyPart))
	label := regexp.MustCompile(`<(?:section|nav|div[^>]*role="region")[^>]*aria-label="([^"]*)"`)
	for _, path := range []string{"", "/source", "/review"} {
		seen := map[string]bool{}
		for _, m := range label.FindAllStringSubmatch(e.editor.Get(e.path+path).Text, -1) {
			if seen[m[1]] {
				t.Errorf("%q is two parts of %s", m[1], path)
			}
			seen[m[1]] = true
		}
		if !seen["Problems"] {
			t.Errorf("%s tells no problems", path)
		}
	}
}

// What the forms have no place for must not be lost by saving another part.
func TestDraft_SavingOnePartKeepsAMistakeInAnother(t *testing.T) {
	t.Parallel()
	e := withParts(t, strings.Replace(everyPart, "rate: 6000/minute", "rate: 1e3/minute", 1))
	f := e.form(t, e.editor, "route/rest")
	f.Set("act", "save")
	a := e.editor.Post(e.at("route/rest"), f)
	d, err := e.Web.Policies.GetDraft(t.Context(), e.draft)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(d.Source, "1e3/minute") {
		t.Errorf("%d: a rate that could not be read has become another:\n%s", a.StatusCode, d.Source)
	}
	wants(t, a, http.StatusConflict, "plans.pro.limits[0].rate cannot be read")
	f = formOn(t, e.editor.Get(e.path).Text, e.path+"/add", "match")
	f.Set("name", "more")
	f.Set("match", "/more")
	f.Set("mode", "closed")
	wants(t, e.editor.Post(e.path+"/add", f), http.StatusConflict, "plans.pro.limits[0].rate cannot be read")
	// Its own part has no number until somebody types one.
	f = e.form(t, e.editor, "plan/pro")
	f.Set("act", "save")
	if got := f.Get("l0-count"); got != "" {
		t.Errorf("the form shows %q for it", got)
	}
	wants(t, e.editor.Post(e.at("plan/pro"), f), http.StatusUnprocessableEntity, "Is missing.")
	f.Set("l0-count", "1000")
	if a := e.editor.Post(e.at("plan/pro"), f); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("mended: %d %s", a.StatusCode, a.Text)
	}
	if l := e.stored(t).Plans["pro"].Limits[0]; l.Rate.Tokens != 1000 {
		t.Errorf("mended: %+v", l)
	}
}
