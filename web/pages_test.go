package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/web/webtest"
)

const pagesPolicy = `
apiVersion: headgate/v1
global:
  limits: [{name: all, per: global, rate: 50000/second, burst: 50000}]
plans:
  free: {limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}]}
  pro: {limits: [{name: requests, per: tenant, counts: requests, rate: 6000/minute, burst: 500}]}
routes:
  - name: report
    match: ["GET /v1/reports/{id}"]
    identity: api_key
    motive: fairness
    cost: 20
    limits: [{name: reports, per: tenant, rate: 100/minute, burst: 20}]
    on_store_failure: {mode: open, fallback: {rate: 200/minute, burst: 200}}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: per-ip, per: ip, rate: 20/minute, burst: 20}]
    on_store_failure: {mode: closed}
  - name: everything-else
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
`

// hostile is text that would do something if it were not written as text.
const hostile = `"><img src=x onerror=window.__xss=1><script>window.__xss=1</script>'{{1}}`

// world is a console with three gateways, a policy and one tenant.
func world(t *testing.T) (*webtest.World, console.Tenant) {
	t.Helper()
	w := webtest.New(t)
	w.Feed.Gateways(3)
	owner := w.Actor(console.RoleOwner)
	if _, err := w.Web.Policies.Publish(t.Context(), owner, []byte(pagesPolicy), nil, 0, console.PublishOptions{Note: "first"}); err != nil {
		t.Fatal(err)
	}
	tenant, err := w.Web.Tenants.Create(t.Context(), owner, console.NewTenant{Name: "Acme", Plan: "pro", TimeZone: "UTC"})
	if err != nil {
		t.Fatal(err)
	}
	return w, tenant
}

func wants(t *testing.T, a webtest.Answer, status int, texts ...string) {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("%d, want %d: %s", a.StatusCode, status, a.Text)
	}
	for _, text := range texts {
		if !strings.Contains(a.Text, text) {
			t.Errorf("the answer lacks %q:\n%s", text, a.Text)
		}
	}
}

var (
	tokenField   = regexp.MustCompile(`name="token" value="([A-Za-z0-9]+)"`)
	secretOnPage = regexp.MustCompile(`hg_(?:live|test)_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}`)
)

func tokenOf(t *testing.T, a webtest.Answer) string {
	t.Helper()
	m := tokenField.FindStringSubmatch(a.Text)
	if m == nil {
		t.Fatalf("no form token in %s", a.Text)
	}
	return m[1]
}

// issue makes a key through the pages and returns the page that shows it.
func issue(t *testing.T, c *webtest.Client, tenant, name string) (page webtest.Answer, secret string, form url.Values) {
	t.Helper()
	form = url.Values{"token": {tokenOf(t, c.Get("/tenants/"+tenant+"/keys/new"))}, "name": {name}, "environment": {"live"}}
	page = c.Post("/tenants/"+tenant+"/keys", form)
	wants(t, page, http.StatusCreated)
	return page, secretOnPage.FindString(page.Text), form
}

// used tells the console of requests of a tenant, as gateways do.
func used(w *webtest.World, tenant string, admitted, refused int64) {
	now := w.Now().Unix()
	b := usage.Batch{Replica: "gw_1", Boot: "b", Seq: 1, Through: now}
	for s := now - 120; s < now; s++ {
		b.Rows = append(b.Rows, usage.Row{Second: s, Tenant: tenant, Route: "report", Outcome: usage.OutcomeAdmitted, Requests: admitted, Cost: 20 * admitted},
			usage.Row{Second: s, Tenant: tenant, Route: "report", Outcome: usage.OutcomeLimited, Limit: "route:report.reports", Requests: refused})
	}
	w.Web.Activity.Live().Apply(b)
}

func TestPages_AllAnswerEmptyAndFull(t *testing.T) {
	t.Parallel()
	empty := webtest.New(t)
	c := empty.As(t, console.RoleOwner)
	for _, path := range []string{"/overview", "/tenants", "/tenants/new", "/keys", "/rotations", "/rotations?all=1", "/gateways", "/gateways?differs=1", "/live/overview", "/live/gateways", "/strip"} {
		wants(t, c.Get(path), http.StatusOK)
	}
	wants(t, c.Get("/overview"), http.StatusOK, "Getting started", "Publish a policy.")

	w, tenant := world(t)
	c = w.As(t, console.RoleOwner)
	issue(t, c, tenant.ID, "backend")
	used(w, tenant.ID, 3, 2)
	for _, path := range []string{"", "/keys", "/usage", "/usage?live=1h", "/audit", "/edit", "/keys/new"} {
		wants(t, c.Get("/tenants/"+tenant.ID+path), http.StatusOK, "Acme")
	}
	wants(t, c.Get("/overview"), http.StatusOK, "Acme", "route:report.reports", "100/minute", "Policy published", ">v1<", "Key issued", "backend of Acme")
	wants(t, c.Get("/tenants/"+tenant.ID), http.StatusOK, "plan.requests", "6000/minute", "plan pro", "route report", "admitted")
	wants(t, c.Get("/live/tenants/"+tenant.ID+"?live=5m&details=1"), http.StatusOK, "route:report.reports", "report")
}

func TestTenants_ListIsFilteredAndPagedWithoutGapsOrRepeats(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	owner := w.Actor(console.RoleOwner)
	for i := range 120 {
		plan := []string{"free", "pro"}[i%2]
		if _, err := w.Web.Tenants.Create(t.Context(), owner, console.NewTenant{Name: "Customer " + string(rune('a'+i%26)), Plan: plan, TimeZone: "UTC"}); err != nil {
			t.Fatal(err)
		}
	}
	c := w.As(t, console.RoleViewer)
	link := regexp.MustCompile(`href="/tenants/(ten_[a-z0-9]+)"`)
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	seen, path, pages := map[string]int{}, "/tenants", 0
	for path != "" {
		a := c.Get(path)
		wants(t, a, http.StatusOK)
		for _, m := range link.FindAllStringSubmatch(a.Text, -1) {
			seen[m[1]]++
		}
		path = ""
		if m := next.FindStringSubmatch(a.Text); m != nil {
			path = strings.ReplaceAll(m[1], "&amp;", "&")
		}
		if pages++; pages > 5 {
			t.Fatal("the list does not end")
		}
	}
	if len(seen) != 121 || pages != 3 {
		t.Errorf("%d tenants on %d pages", len(seen), pages)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is shown %d times", id, n)
		}
	}
	if a := c.Get("/tenants?plan=free&limit=100"); strings.Count(a.Text, `<a href="/tenants/ten_`) != 60 {
		t.Errorf("filter by plan shows %d", strings.Count(a.Text, `<a href="/tenants/ten_`))
	}
	wants(t, c.Get("/tenants?q=nobody"), http.StatusOK, "No tenant matches the filter.")
}

func TestTenants_FailedFormKeepsInputAndNamesTheField(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleOwner)
	form := url.Values{"token": {tokenOf(t, c.Get("/tenants/new"))}, "name": {""}, "plan": {"gold"}, "external_id": {hostile}, "time_zone": {"Mars/Base"}}
	a := c.Post("/tenants", form)
	wants(t, a, http.StatusUnprocessableEntity, `id="f-name-error"`, `id="f-time_zone-error"`, `value="Mars/Base"`, "&#34;&gt;&lt;img")
	if strings.Contains(a.Text, "<img") {
		t.Error("input is written as markup")
	}
	form.Set("name", "Globex")
	form.Set("plan", "free")
	form.Set("time_zone", "Europe/Berlin")
	form.Set("token", tokenOf(t, a))
	a = c.Post("/tenants", form)
	if a.StatusCode != http.StatusSeeOther || !strings.HasPrefix(a.Header.Get("Location"), "/tenants/ten_") {
		t.Fatalf("%d to %q: %s", a.StatusCode, a.Header.Get("Location"), a.Text)
	}
	wants(t, c.Get(a.Header.Get("Location")), http.StatusOK, "Globex was made")

	edit := url.Values{"name": {"Acme 2"}, "plan": {"free"}, "external_id": {""}, "time_zone": {"UTC"}}
	wants(t, c.Post("/tenants/"+tenant.ID+"/edit", edit), http.StatusUnprocessableEntity, "another plan changes what is below", "6000/minute", "60/minute", `name="seen_plan" value="free"`)
	wants(t, c.Get("/tenants/"+tenant.ID), http.StatusOK, "plan <b>pro</b>")
	edit.Set("seen_plan", "free")
	if a := c.Post("/tenants/"+tenant.ID+"/edit", edit); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.StatusCode, a.Text)
	}
	wants(t, c.Get("/tenants/"+tenant.ID), http.StatusOK, "Acme 2", "60/minute", "plan free")
	edit.Set("plan", "gold")
	wants(t, c.Post("/tenants/"+tenant.ID+"/edit", edit), http.StatusUnprocessableEntity, `id="f-plan-error"`, "Acme 2")
}

func TestTenants_SecondSubmissionMakesNothing(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	c := w.As(t, console.RoleOwner)
	form := url.Values{"token": {tokenOf(t, c.Get("/tenants/new"))}, "name": {"Globex"}, "plan": {"free"}, "time_zone": {"UTC"}}
	first := c.Post("/tenants", form)
	wants(t, first, http.StatusSeeOther)
	wants(t, c.Post("/tenants", form), http.StatusConflict, "nothing was done twice", first.Header.Get("Location"))
	if n, err := w.Web.Tenants.Count(t.Context()); err != nil || n != 2 {
		t.Errorf("%d tenants, %v", n, err)
	}
	form.Del("token")
	wants(t, c.Post("/tenants", form), http.StatusUnprocessableEntity, "Open it again")
}

func TestTenants_SuspendNeedsAReasonAndSaysWhereItHolds(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleOwner)
	page := "/tenants/" + tenant.ID
	wants(t, c.Post(page+"/suspend", url.Values{"reason": {""}}), http.StatusUnprocessableEntity, `id="suspend-reason-error"`)
	if a := c.Post(page+"/suspend", url.Values{"reason": {hostile}}); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.StatusCode, a.Text)
	}
	a := c.Get(page)
	wants(t, a, http.StatusOK, "refused on 3 of 3 gateways after", "Every request of this tenant is answered 403")
	if strings.Contains(a.Text, "<img") {
		t.Error("the reason is written as markup")
	}
	if strings.Contains(c.Get(page).Text, "refused on 3 of 3") {
		t.Error("the message is shown twice")
	}
	if a := c.Post(page+"/resume", url.Values{"reason": {"paid"}}); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.StatusCode, a.Text)
	}
	wants(t, c.Get(page), http.StatusOK, "accepted on 3 of 3 gateways after")
}

func TestTenants_UnknownIsTheSame404Everywhere(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	c := w.As(t, console.RoleOwner)
	id := regexp.MustCompile(`id="request-id">[^<]*<`)
	clean := func(s string) string { return id.ReplaceAllString(s, "") }
	waitFor(t, func() bool { return strings.Contains(c.Get("/strip").Text, "Reviews <b>0</b>") }) // the strip stands on all of them
	for _, path := range []string{"", "/keys", "/usage", "/audit", "/edit", "/keys/new"} {
		a, b := c.Get("/tenants/ten_aaaaaaaaaaaaaaaa"+path), c.Get("/tenants/"+url.PathEscape("x'--")+path)
		wants(t, a, http.StatusNotFound)
		wants(t, b, http.StatusNotFound)
		if got, want := clean(a.Text), clean(b.Text); got != want {
			t.Errorf("%s: the answers differ", path)
		}
	}
	for _, path := range []string{"/keys/zzzzzzzzzzzz", "/rotations/rot_x", "/credentials/crd_x/rotate", "/tenants/ten_x/view-as", "/live/tenants/ten_x", "/live/rotations/rot_x"} {
		wants(t, c.Get(path), http.StatusNotFound)
	}
}

func TestOverview_WithRedisAwaySaysUnknownAndNeverZero(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	c := w.As(t, console.RoleViewer)
	waitFor(t, func() bool { return w.Web.Fleet.Health(t.Context()).InSync == 3 })
	w.Feed.Down(true)
	waitFor(t, func() bool { return !w.Web.Fleet.Health(t.Context()).RedisUp })
	strip := c.Get("/strip")
	wants(t, strip, http.StatusOK, `data-health="bad"`, "unreachable", "gateways unknown", "Redis is unreachable from the console since")
	wants(t, c.Get("/overview"), http.StatusOK, `data-health="bad"`, `<dd>unreachable </dd>`, "Counts have not come in")
	wants(t, c.Get("/gateways"), http.StatusOK, "Heartbeats travel through Redis, which has not answered since", "3 gateways when last heard")
	wants(t, c.Get("/tenants/"+tenant.ID), http.StatusOK, "No counts have come in this range")
	owner := w.As(t, console.RoleOwner)
	start := time.Now()
	page, secret, _ := issue(t, owner, tenant.ID, "backend")
	wants(t, page, http.StatusCreated, "unknown on how many gateways")
	if secret == "" || time.Since(start) > 5*time.Second {
		t.Errorf("issuing with Redis away: secret shown %v after %v", secret != "", time.Since(start))
	}
	w.Feed.Down(false)
	waitFor(t, func() bool { return w.Web.Fleet.Health(t.Context()).FleetKnown })
	wants(t, c.Get("/strip"), http.StatusOK, "3/3 in sync")
}

func TestOverview_R045_ShowsWhatEndangersTheLimitsAndWhatMendsIt(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	c := w.As(t, console.RoleViewer)
	waitFor(t, func() bool { return w.Web.Fleet.Health(t.Context()).InSync == 3 })
	wants(t, c.Get("/overview"), http.StatusOK, "Nothing is known that endangers the limits.")
	look := func() time.Time { return w.Web.Fleet.Health(t.Context()).HazardsAt }
	before := look()
	w.Feed.Endanger(
		policy.Hazard{Code: policy.HazardEvictionPolicy, Severity: policy.SeverityRed, Server: "redis:6379", Text: "It drops <counters>.", Mend: "Set noeviction."},
		policy.Hazard{Code: policy.HazardPersistence, Severity: policy.SeverityNote, Server: "redis:6379", Text: "Nothing is saved.", Mend: "Save."})
	w.Advance(time.Minute)
	waitFor(t, func() bool { return look().After(before) })
	wants(t, c.Get("/overview"), http.StatusOK, `data-health="bad"`, "Redis endangers the limits.", `href="/overview#hazards"`, `id="hazards"`,
		"It drops &lt;counters&gt;.", "Set noeviction.", "Nothing is saved.", ">note<")
	h := w.API(t, console.RoleViewer).Get("/api/v1/health")
	wants(t, h, http.StatusOK, `"status":"degraded"`, `"code":"eviction-policy"`, `"mend":"Set noeviction."`, `"hazards_at"`)
}

func TestOverview_StepsThatCannotBeSeenAreUnknown(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	c := w.As(t, console.RoleOwner)
	states := regexp.MustCompile(`(?s)<span class="state">.*?</span>\s*(done|to do|unknown)\s*</span>\s*<span><b>`)
	shown := func() string {
		var all []string
		for _, m := range states.FindAllStringSubmatch(c.Get("/overview").Text, -1) {
			all = append(all, m[1])
		}
		return strings.Join(all, ", ")
	}
	waitFor(t, func() bool { return w.Web.Fleet.Health(t.Context()).FleetKnown })
	if got := shown(); got != "to do, to do, to do, to do, to do" {
		t.Errorf("fresh: %s", got)
	}
	w.Feed.Down(true)
	waitFor(t, func() bool { return !w.Web.Fleet.Health(t.Context()).FleetKnown })
	if got := shown(); got != "to do, to do, to do, unknown, unknown" {
		t.Errorf("Redis away: %s", got)
	}
}

// waitFor polls until what is computed in the background has come about.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not come about within 10 s")
		}
	}
}
