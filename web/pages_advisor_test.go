package web_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/web/webtest"
)

// withUse is a world with a policy, a tenant, and a log of what it asked for an hour
// ago: 70 requests at once of 60, and 10 a minute later.
func withUse(t *testing.T) (*webtest.World, console.Tenant) {
	t.Helper()
	w, tenant := withEveryPart(t, "free", document)
	at := w.Now().Add(-time.Hour)
	put := func(at time.Time, admitted, refused int) {
		b := &decisionlog.Batch{Replica: "gw", Boot: "b", Seq: at.Unix(), From: at.UnixMicro(), To: at.UnixMicro(), Sample: decisionlog.Whole}
		for i := range admitted + refused {
			e := decisionlog.Entry{Kind: decisionlog.KindDecision, At: at.UnixMicro(), Order: int32(i), Seq: int64(i + 1), Tenant: tenant.ID, Route: "everything", Cost: 1, Hits: 1, Allowed: i < admitted}
			if !e.Allowed {
				e.Limit, e.Reason = "plan.requests", "rate_limited"
			}
			b.Entries = append(b.Entries, e)
		}
		w.Decisions.Add(b)
	}
	put(at, 60, 10)
	put(at.Add(time.Minute), 10, 0)
	return w, tenant
}

func storeKnee(t *testing.T, w *webtest.World) console.Capacity {
	t.Helper()
	c, err := w.Web.Capacities.Store(t.Context(), w.Actor(console.RoleEditor), console.NewCapacity{
		Route: "everything", Target: "GET http://10.0.0.1/", KneeMilli: 500, BeyondMilli: 525, Plateau: 10 * time.Millisecond, P99: 11 * time.Millisecond,
		Ended: "knee", Why: "between <0.5> and 0.525", Method: "a ramp", Steps: []console.CapacityStep{{RPSMilli: 525, Sent: 9, Why: "p99 90ms"}, {RPSMilli: 500, Sent: 8, Good: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAdvisor_TellsHowFullLimitsAreAndWhatOthersWouldRefuse(t *testing.T) {
	t.Parallel()
	w, tenant := withUse(t)
	viewer := w.As(t, console.RoleViewer)
	wants(t, viewer.Get("/advisor"), http.StatusOK, "The log of decisions is being read", "headgate knee --route everything")
	if err := w.Web.Advisor.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	wants(t, viewer.Get("/advisor"), http.StatusOK, "plan.requests", "60/minute, burst 60", "117 %", "/advisor/limit?id=plan.requests&amp;plan=free", "log of decisions", "1/s")
	live := viewer.Get("/live/advisor")
	wants(t, live, http.StatusOK, "plan.requests")
	if strings.Contains(live.Text, "<html") || strings.Contains(live.Text, "hx-get") {
		t.Error("a report that is there is asked for again")
	}
	limit := viewer.Get("/advisor/limit?id=plan.requests&plan=free")
	wants(t, limit, http.StatusOK, "Acme", tenant.ID, "× 0.5", "30/minute, burst 30", "in force", "2 windows, 1 who asked")
	if strings.Contains(limit.Text, "Try it") {
		t.Error("a viewer is offered what only editors may")
	}
	wants(t, viewer.Get("/advisor/limit?id=plan.requests&plan=free&long=1"), http.StatusOK, "Over the last 30 days, by the hour", "The ledger has nothing")
	wants(t, viewer.Get("/advisor/limit?id=plan.nothing"), http.StatusNotFound, "says nothing of a limit")
}

func TestAdvisor_TellsWhatIsPromisedAndMeasured(t *testing.T) {
	t.Parallel()
	w, _ := withUse(t)
	c := storeKnee(t, w)
	viewer := w.As(t, console.RoleViewer)
	wants(t, viewer.Get("/advisor"), http.StatusOK, "0.5/s", "2 ×", "/advisor/capacities/"+c.ID)
	page := viewer.Get("/advisor/capacities/" + c.ID)
	wants(t, page, http.StatusOK, "Capacity of everything", "&lt;0.5&gt;", "p99 90ms", "fresh", "editor", "GET http://10.0.0.1/")
	storeKnee(t, w)
	wants(t, viewer.Get("/advisor/capacities/"+c.ID), http.StatusOK, "replaced by a later measurement")
	wants(t, viewer.Get("/advisor/capacities/cap_aaaaaaaaaaaaaaaa"), http.StatusNotFound)
	source := strings.Replace(document, `match: ["/"]`, `match: ["/", "GET /more"]`, 1)
	if _, err := w.Web.Policies.Publish(t.Context(), w.Actor(console.RoleOwner), []byte(source), nil, 1, console.PublishOptions{Note: "more", ConfirmTypedOnly: true}); err != nil {
		t.Fatal(err)
	}
	wants(t, viewer.Get("/advisor"), http.StatusOK, "stale: the route changed since, in v2")
}

func TestAdvisor_BeforeTheFirstPolicyItSaysSo(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	wants(t, w.As(t, console.RoleViewer).Get("/advisor"), http.StatusOK, "There is no policy in force yet.")
	wants(t, w.As(t, console.RoleViewer).Get("/advisor/limit?id=x"), http.StatusNotFound, "no report")
	if a := w.Anonymous(t).Get("/advisor"); a.StatusCode != http.StatusSeeOther {
		t.Errorf("without a sign-in: %d", a.StatusCode)
	}
}

func TestAdvisor_OtherNumbersAreTriedOnTheWholeEngine(t *testing.T) {
	t.Parallel()
	w, _ := withUse(t)
	if err := w.Web.Advisor.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = w.Web.Policies.RunTrials(ctx) }()
	editor := w.As(t, console.RoleEditor)
	fields := url.Values{"limit": {"plan.requests"}, "plan": {"free"}, "rate": {"6/minute"}, "burst": {""}}
	var got webtest.Answer
	for got = editor.Post("/advisor/try", fields); got.StatusCode == http.StatusServiceUnavailable; got = editor.Post("/advisor/try", fields) {
		time.Sleep(10 * time.Millisecond) // nobody works on simulations yet
	}
	where := got.Header.Get("Location")
	if got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(where, "/advisor/trials/sim_") {
		t.Fatalf("%d to %q:\n%s", got.StatusCode, where, got.Text)
	}
	for !strings.Contains(editor.Get("/live"+where).Text, "What the draft would have done") {
		time.Sleep(20 * time.Millisecond)
	}
	// 6 of 70 pass at first, and 6 more a minute later: 58 that had passed do not.
	wants(t, editor.Get(where), http.StatusOK, "Newly refused", "58", "Acme")
	bad := url.Values{"limit": {"plan.requests"}, "plan": {"free"}, "rate": {"lots"}, "burst": {"x"}}
	wants(t, editor.Post("/advisor/try", bad), http.StatusUnprocessableEntity, "Must be a whole number.", `value="lots"`)
	bad.Set("burst", "")
	wants(t, editor.Post("/advisor/try", bad), http.StatusUnprocessableEntity, `value="lots"`)
	wants(t, w.As(t, console.RoleViewer).Post("/advisor/try", fields), http.StatusForbidden)
	draft, err := w.Web.Policies.CreateDraft(t.Context(), w.Actor(console.RoleEditor), "change", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	trial, err := w.Web.Policies.StartTrial(t.Context(), w.Actor(console.RoleEditor), draft.ID, w.Now().Add(-time.Hour), w.Now())
	if err != nil {
		t.Fatal(err)
	}
	wants(t, editor.Get("/advisor/trials/"+trial.ID), http.StatusNotFound, "of a draft")
}
