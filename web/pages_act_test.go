package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/web/webtest"
)

// rotating is a world with a rotation under way, and its page.
func rotating(t *testing.T) (*webtest.World, *webtest.Client, console.Started, string) {
	t.Helper()
	w, tenant := world(t)
	actor := w.Actor(console.RoleKeyAdmin)
	out, err := w.Web.Keys.IssueCredential(t.Context(), actor, tenant.ID, console.NewCredential{Name: "backend", Environment: "live"})
	if err != nil {
		t.Fatal(err)
	}
	started, err := w.Web.Rotations.Start(t.Context(), actor, out.Credential.ID, console.NewRotation{Overlap: 24 * time.Hour, Reason: "yearly"})
	if err != nil {
		t.Fatal(err)
	}
	return w, w.As(t, console.RoleKeyAdmin), started, "/rotations/" + started.Rotation.ID
}

func TestActs_SayTheTruthAboutGateways(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  func(*webtest.World)
		want string
	}{
		"they are gone": {func(w *webtest.World) { w.Feed.Gateways(0); w.Advance(2 * time.Minute) }, "Suspended: no gateway is running; those that start will have it."},
		"they are slow": {func(w *webtest.World) { w.Feed.Freeze(nil) }, "Suspended: refused on 0 of 3 gateways so far; the others follow as they hear of it."},
		"Redis is away": {func(w *webtest.World) { w.Feed.Down(true) }, "Suspended: unknown on how many gateways it is refused: Redis cannot be asked; gateways are told as soon as it is back."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, tenant := world(t)
			waitFor(t, func() bool { return w.Web.Fleet.Health(t.Context()).InSync == 3 })
			c.set(w)
			browser := w.As(t, console.RoleKeyAdmin)
			a := browser.Post("/tenants/"+tenant.ID+"/suspend", url.Values{"reason": {"unpaid"}})
			wants(t, a, http.StatusSeeOther)
			wants(t, browser.Get(a.Header.Get("Location")), http.StatusOK, c.want)
		})
	}
}

func TestRotations_FailedActStandsOpenWithItsInput(t *testing.T) {
	t.Parallel()
	w, c, started, page := rotating(t)
	long := strings.Repeat("y", 501)
	for _, f := range []struct {
		act    string
		fields url.Values
		texts  []string
	}{
		{"end", url.Values{}, []string{`id="end" open`, `id="end-reason-error">Say why.`}},
		{"end", url.Values{"reason": {long}}, []string{`id="end" open`, "At most 500 characters.", `value="` + long + `"`}},
		{"cancel", url.Values{"reason": {"  "}}, []string{`id="cancel" open`, `id="cancel-reason-error">Say why.`}},
		{"extend", url.Values{"by": {"720h"}}, []string{`id="extend" open`, `id="extend-reason-error">Say why.`, `value="720h" selected`}},
		{"extend", url.Values{"by": {"a day"}, "reason": {hostile}}, []string{`id="extend" open`, "Choose by how much.", "&#34;&gt;&lt;img"}},
		{"extend", url.Values{"by": {"-1h"}, "reason": {"less"}}, []string{`id="extend" open`, "Choose by how much.", `value="less"`}},
		{"extend", url.Values{"by": {"9000h"}, "reason": {"much"}}, []string{`id="extend" open`, `value="much"`}},
	} {
		a := c.Post(page+"/"+f.act, f.fields)
		wants(t, a, http.StatusUnprocessableEntity, f.texts...)
		if strings.Contains(a.Text, "<img") {
			t.Errorf("%s: input is written as markup", f.act)
		}
	}
	got, err := w.Web.Rotations.Get(t.Context(), started.Rotation.ID)
	if err != nil || got.State != console.RotationOverlap || got.Extensions != 0 || !got.EndsAt.Equal(started.Rotation.EndsAt) {
		t.Errorf("refused acts left %+v (%v)", got, err)
	}
}

func TestRotations_CancelGivesTheOldKeyBack(t *testing.T) {
	t.Parallel()
	w, c, started, page := rotating(t)
	wants(t, c.Post(page+"/cancel", url.Values{"reason": {"wrong customer"}}), http.StatusSeeOther)
	wants(t, c.Get(page), http.StatusOK, "Cancelled, the new key is revoked: refused on 3 of 3 gateways", "cancelled")
	wants(t, c.Get("/live"+page), http.StatusOK, "The new key was revoked; the old one goes on as before.")
	for kid, want := range map[string]string{started.Rotation.OldKID: "active", started.Rotation.NewKID: "revoked"} {
		if k, err := w.Web.Keys.Get(t.Context(), kid); err != nil || string(k.State) != want {
			t.Errorf("%s is %s, want %s (%v)", kid, k.State, want, err)
		}
	}
}

func TestRotations_OverlapThatRanOutIsSaidBeforeItIsClosed(t *testing.T) {
	t.Parallel()
	w, _, started, page := rotating(t)
	w.Advance(started.Rotation.EndsAt.Sub(w.Now()) + time.Second)
	c := w.As(t, console.RoleViewer)
	wants(t, c.Get("/live"+page), http.StatusOK, "the overlap has run out", "The old key is refused since")
}

func TestViewAs_LivePartIsThatTenantsAlone(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	used(w, tenant.ID, 3, 1)
	c := w.As(t, console.RoleViewer)
	live := "/tenants/" + tenant.ID + "/view-as/now"
	c.Header.Set("HX-Request", "true")
	a := c.Get(live)
	wants(t, a, http.StatusOK, "were refused", "route:report.reports", `hx-get="`+live)
	if strings.Contains(a.Text, "global.all") || strings.Contains(a.Text, "<html") {
		t.Errorf("the part shows more than the tenant's own:\n%s", a.Text)
	}
	events, _, err := w.Web.Audit.List(t.Context(), console.AuditQuery{Action: "tenant.view-as"})
	if err != nil || len(events) != 0 {
		t.Errorf("%d views are recorded for a part that polls (%v)", len(events), err)
	}
	// No header makes a page a part.
	wants(t, c.Get("/tenants/"+tenant.ID+"/view-as/keys"), http.StatusOK)
	if events, _, err = w.Web.Audit.List(t.Context(), console.AuditQuery{Action: "tenant.view-as"}); err != nil || len(events) != 1 {
		t.Errorf("%d views are recorded for a page (%v)", len(events), err)
	}
}

func TestOverview_RefusedMostNamesTenantsAndWhatIsNone(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	now := w.Now().Unix()
	b := usage.Batch{Replica: "gw_1", Boot: "b", Seq: 1, Through: now}
	for i, id := range []string{tenant.ID, "ten_gone", usage.Rest, ""} {
		b.Rows = append(b.Rows, usage.Row{Second: now - 5, Tenant: id, Route: "report", Outcome: usage.OutcomeLimited, Limit: "route:report.reports", Requests: int64(10 - i)})
	}
	w.Web.Activity.Live().Apply(b)
	a := w.As(t, console.RoleViewer).Get("/overview")
	wants(t, a, http.StatusOK, `<a href="/tenants/`+tenant.ID+`">Acme</a>`, "ten_gone", "all others together")
	if strings.Contains(a.Text, `href="/tenants/ten_gone"`) || strings.Contains(a.Text, `href="/tenants/"`) {
		t.Error("what is not a tenant links to a page")
	}
}

func TestLists_ForeignCursorsAreRefusedAndNotEmpty(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	c := w.As(t, console.RoleViewer)
	for _, path := range []string{"/tenants", "/keys", "/audit", "/policy/versions"} {
		if a := c.Get(path + "?after=nonsense"); a.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}

func TestOverview_TellsWhatComesAndWhatIsNewlyRefused(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	now := w.Now().Unix()
	w.Web.Activity.Live().Apply(usage.Batch{Replica: "gw_1", Boot: "b", Seq: 1, Through: now,
		Rows:   []usage.Row{{Second: now - 5, Tenant: tenant.ID, Route: "report", Outcome: usage.OutcomeLimited, Limit: "route:report.reports", Requests: 10}},
		Detail: &usage.Detail{Times: []usage.TimeRow{{Route: "report", Buckets: []int64{0, 0, 0, 0, 0, 10}}}}})
	_, err := w.Web.Overrides.Boost(t.Context(), w.Actor(console.RoleOwner), tenant.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: 2000, For: time.Hour, Reason: "a launch"})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, w.As(t, console.RoleViewer).Get("/overview"), http.StatusOK, `href="/explain?tenant=`+tenant.ID+`"`, "≤ 2.50 ms", "Boost ends", "plan.requests of Acme",
		`href="/lockouts?limit=route%3Areport.reports"`, "a week ago")
}
