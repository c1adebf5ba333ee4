package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// onTrial publishes a draft to one gateway first.
func onTrial(t *testing.T) edited {
	t.Helper()
	e := looser(t)
	waitFor(t, func() bool {
		return strings.Contains(e.owner.Get("/policy/versions/1/status").Text, "3 of 3 enforce v1")
	})
	f := e.publishing(t, e.owner)
	f.Set("strategy", "count")
	f.Set("count", "1")
	f.Set("hold", "1m")
	f.Set("promote", "no")
	f.Set("rise", "5")
	a := e.owner.Post(e.path+"/publish", f)
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/policy/versions/2" {
		t.Fatalf("canary: %d %.900s", a.StatusCode, a.Text)
	}
	return e
}

func TestPublication_CanaryNamesItsGatewayAndIsPromotedAfterItsTime(t *testing.T) {
	t.Parallel()
	e := onTrial(t)
	waitFor(t, func() bool {
		return strings.Contains(e.owner.Get("/policy/versions/2").Text, "1 of 1 canary gateway enforce")
	})
	page := e.owner.Get("/policy/versions/2").Text
	for _, want := range []string{"v2 on trial", "1 gateway for at least 1 min", "then until a person decides", "goes silent or degrades", "all others enforce v1", ">canary<", "Give v2 to all", "Stop: back to what v1 says"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "Roll back to") {
		t.Error("a canary that runs is offered to be rolled back beside being stopped")
	}
	if list := e.owner.Get("/policy/versions").Text; !strings.Contains(list, "canary running") {
		t.Error("the list of versions does not mark the canary")
	}
	waitFor(t, func() bool { return strings.Contains(e.owner.Get("/strip").Text, "canary v2 on 1 of 3") })
	if gateways := e.owner.Get("/gateways").Text; !strings.Contains(gateways, ">canary<") {
		t.Error("the page of gateways does not mark the canary")
	}
	if a := e.editor.Post("/policy/versions/2/promote", url.Values{}); a.StatusCode != http.StatusForbidden {
		t.Errorf("an editor promotes: %d", a.StatusCode)
	}
	if a := e.owner.Post("/policy/versions/2/promote", url.Values{"note": {"good"}}); a.StatusCode != http.StatusConflict || !strings.Contains(a.Text, "may be promoted from") {
		t.Errorf("before its time: %d", a.StatusCode)
	}
	e.Advance(2 * time.Minute)
	if a := e.owner.Post("/policy/versions/2/promote", url.Values{"note": {"good"}}); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("promote: %d %.600s", a.StatusCode, a.Text)
	}
	waitFor(t, func() bool { return strings.Contains(e.owner.Get("/policy/versions/2").Text, "3 of 3 enforce v2") })
	if page := e.owner.Get("/policy/versions/2").Text; !strings.Contains(page, "Began as a canary") || !strings.Contains(page, "Roll back to v1") {
		t.Error("after its promotion the page does not say how it began, or offers no way back")
	}
}

func TestPublication_CanaryIsStoppedForAReasonByAHigherVersion(t *testing.T) {
	t.Parallel()
	e := onTrial(t)
	if a := e.owner.Post("/policy/versions/2/stop", url.Values{"reason": {""}}); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, `id="f-stop-reason-error"`) {
		t.Errorf("without a reason: %d", a.StatusCode)
	}
	a := e.owner.Post("/policy/versions/2/stop", url.Values{"reason": {"too many refused"}})
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/policy/versions/3" {
		t.Fatalf("stop: %d %.600s", a.StatusCode, a.Text)
	}
	page := e.owner.Get("/policy/versions/2").Text
	for _, want := range []string{"Canary, stopped", "too many refused", "/policy/versions/3", "a canary that was stopped"} {
		if !strings.Contains(page, want) {
			t.Errorf("the stopped canary's page lacks %q", want)
		}
	}
	if a := e.owner.Post("/policy/versions/2/stop", url.Values{"reason": {"again"}}); a.StatusCode != http.StatusConflict {
		t.Errorf("stopped twice: %d", a.StatusCode)
	}
	if a := e.owner.Post("/policy/versions/77/promote", url.Values{}); a.StatusCode != http.StatusNotFound {
		t.Errorf("no such version: %d", a.StatusCode)
	}
}

func TestPublication_CanaryPlansThatAreNoneAreToldAtTheirFields(t *testing.T) {
	t.Parallel()
	e := looser(t)
	for _, c := range []struct{ strategy, count, zone, field string }{
		{"count", "1,000", "", "count"}, {"count", "0", "", "count"}, {"count", "3", "", "count"}, {"zone", "", "", "zone"}, {"zone", "", "moon", "zone"},
	} {
		f := e.publishing(t, e.owner)
		f.Set("strategy", c.strategy)
		f.Set("count", c.count)
		f.Set("zone", c.zone)
		a := e.owner.Post(e.path+"/publish", f)
		if a.StatusCode != http.StatusUnprocessableEntity && a.StatusCode != http.StatusConflict || strings.Contains(a.Text, "data-invalid") != (c.strategy == "count") {
			t.Errorf("%+v: %d", c, a.StatusCode)
		}
	}
	if head, _, _ := e.Web.Policies.Head(t.Context()); head.Number != 1 {
		t.Errorf("v%d was published", head.Number)
	}
}

func TestPublication_C05_SavedWhileRedisIsAwayIsSaidToBeSavedAndNotLive(t *testing.T) {
	t.Parallel()
	e := looser(t)
	waitFor(t, func() bool { return strings.Contains(e.owner.Get("/strip").Text, "3/3 in sync") })
	e.Feed.Down(true)
	waitFor(t, func() bool { return strings.Contains(e.owner.Get("/strip").Text, "unreachable") })
	if a := e.owner.Post(e.path+"/publish", e.publishing(t, e.owner)); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("publish: %d %.600s", a.StatusCode, a.Text)
	}
	page := e.owner.Get("/policy/versions/2").Text
	if !strings.Contains(page, "Saved as v2, live on 0 of 3") || !strings.Contains(page, "Redis cannot be asked") {
		t.Errorf("the page says\n%s", page[strings.Index(page, `id="publication"`):])
	}
	e.Feed.Down(false)
	waitFor(t, func() bool {
		return strings.Contains(e.owner.Get("/policy/versions/2/status").Text, "3 of 3 enforce v2")
	})
}

func TestPublication_RollBackObeysTheRulesAndOffersBreakGlass(t *testing.T) {
	t.Parallel()
	e := looser(t)
	if a := e.owner.Post(e.path+"/publish", e.publishing(t, e.owner)); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("publish: %d", a.StatusCode)
	}
	e.rules(t, console.ApprovalRule{When: console.WhenAny, Approvals: 1})
	a := e.owner.Post("/policy/versions/1/rollback", url.Values{"note": {"back"}})
	if a.StatusCode != http.StatusForbidden || !strings.Contains(a.Text, "Break glass: without the approvals") || !strings.Contains(a.Text, `value="back"`) {
		t.Errorf("roll back without the approval: %d", a.StatusCode)
	}
	if list := e.owner.Get("/policy/versions?as_of=2000-01-01T00:00"); list.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(list.Text, "Nothing was published by then.") {
		t.Errorf("as of long ago: %d", list.StatusCode)
	}
	if a := e.owner.Get("/policy/versions?as_of=" + e.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04")); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/policy/versions/2" {
		t.Errorf("as of now: %d to %s", a.StatusCode, a.Header.Get("Location"))
	}
}
