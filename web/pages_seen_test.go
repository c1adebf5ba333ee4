package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/web/webtest"
)

// tell lets a gateway report a detail now.
func tell(w *webtest.World, seq int64, d usage.Detail) {
	now := w.Web.Now().Unix()
	for i := range d.Paths {
		d.Paths[i].Last = now
	}
	b := usage.Batch{Replica: "gw_1", Boot: "b", Seq: seq, Through: now, Detail: &d, Rows: []usage.Row{
		{Second: now, Route: "login", Outcome: usage.OutcomeAdmitted, Requests: 90, Cost: 90}, {Second: now, Route: "login", Outcome: usage.OutcomeLimited, Requests: 10},
		{Second: now, Route: "chat", Outcome: usage.OutcomeAdmitted, Requests: 1, Cost: 1},
	}}
	w.Web.Activity.Live().Apply(b)
}

func TestSeen_SaysUnknownNoneOneAndMany(t *testing.T) {
	t.Parallel()
	w, viewer := inForce(t)
	if text := viewer.Get("/routes").Text; !strings.Contains(text, "Unknown: no gateway has told") {
		t.Error("it is not said that nobody told")
	}
	tell(w, 1, usage.Detail{})
	if text := viewer.Get("/routes").Text; !strings.Contains(text, "None in the last hour") {
		t.Error("it is not said that there are none")
	}
	tell(w, 2, usage.Detail{Paths: []usage.PathRow{{Method: "GET", Path: "/lost/{id}", Requests: 1234}}})
	text := viewer.Get("/routes").Text
	if !strings.Contains(text, "GET /lost/{id}") || !strings.Contains(text, "1\u202f234") || !strings.Contains(text, "404, no route") || strings.Contains(text, "Make a route") {
		t.Error("one path, or a viewer is offered what editors may do")
	}
	if text := w.As(t, console.RoleEditor).Get("/routes").Text; !strings.Contains(text, `href="/routes/new?method=GET&amp;path=%2Flost%2F%7Bid%7D"`) {
		t.Error("an editor is not offered to make a route")
	}
	var rows []usage.PathRow
	for i := range 60 {
		rows = append(rows, usage.PathRow{Path: fmt.Sprintf("/scan/%c%c", 'a'+i%26, 'a'+i/26), Route: "mine", Requests: 1})
	}
	tell(w, 3, usage.Detail{Paths: rows, Rest: 77})
	text = viewer.Get("/routes?q=login").Text
	if strings.Count(text, "which takes every path") != 19 || !strings.Contains(text, "Show 41 more") || !strings.Contains(text, "77 requests") || !strings.Contains(text, `href="/routes?paths=all&amp;q=login"`) {
		t.Errorf("%d of many paths", strings.Count(text, "which takes every path"))
	}
	if text := viewer.Get("/routes?paths=all").Text; strings.Count(text, "which takes every path") != 60 {
		t.Error("not all paths are shown when asked for")
	}
}

func TestSeen_HostilePathsDoNotReachThePage(t *testing.T) {
	t.Parallel()
	w, viewer := inForce(t)
	tell(w, 1, usage.Detail{Paths: []usage.PathRow{
		{Method: "GET", Path: "/<script>alert(1)</script>", Requests: 1}, {Method: "GET", Path: "/users/jane@example.com", Requests: 1},
		{Method: "GET\"><b>", Path: "/evil", Requests: 1}, {Method: "GET", Path: "/kept", Requests: 1},
	}})
	text := viewer.Get("/routes").Text
	for _, not := range []string{"alert(1)", "jane", "/evil"} {
		if strings.Contains(text, not) {
			t.Errorf("%q is on the page", not)
		}
	}
	if !strings.Contains(text, "/kept") {
		t.Error("what is in order is not")
	}
	editor := w.As(t, console.RoleEditor)
	a := editor.Get("/routes/new?" + url.Values{"method": {"BREW<"}, "path": {"/users/jane@example.com/<script>/7"}}.Encode())
	if a.StatusCode != http.StatusOK || strings.Contains(a.Text, "jane") || strings.Contains(a.Text, "<script>/") || !strings.Contains(a.Text, `value="/users/{id}/{id2}/{id3}"`) {
		t.Errorf("%d: the form takes over what stands in its address", a.StatusCode)
	}
}

func TestRoutes_DecidingTimesAreKnownUnknownOrNone(t *testing.T) {
	t.Parallel()
	w, viewer := inForce(t)
	tell(w, 1, usage.Detail{Times: []usage.TimeRow{{Route: "login", Buckets: []int64{60, 0, 38, 0, 0, 2}}, {Route: "mine", Buckets: []int64{14: 3}}}})
	text := viewer.Get("/routes?q=login").Text
	for _, want := range []string{"p99 <b>≤ 2.50 ms</b>", "p50 ≤ 0.05 ms", "10 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	cell := func(q string) string {
		_, rest, _ := strings.Cut(viewer.Get("/routes?q="+q).Text, `data-label="decided in">`)
		text, _, _ := strings.Cut(rest, "</td>")
		return strings.TrimSpace(text)
	}
	if got := cell("/chat"); got != "unknown" {
		t.Errorf("a route that was asked for, of which no times were told: %q", got)
	}
	if got := cell("reports"); got != "–" {
		t.Errorf("a route that nobody asked for: %q", got)
	}
	if got := cell("mine"); !strings.Contains(got, "&gt; 100 ms") {
		t.Errorf("a slow route: %q", got)
	}
}

func TestRouteNew_IsAddedToAnOpenOrANewDraft(t *testing.T) {
	t.Parallel()
	e := edit(t)
	path := "/routes/new?" + url.Values{"method": {"GET"}, "path": {"/v1/a/{id}/b/{id}/"}}.Encode()
	f := formOn(t, e.editor.Get(path).Text, "/routes/new")
	if f.Get("match") != "GET /v1/a/{id}/b/{id2}/{$}" || f.Get("name") != "get-v1-a-b" || f.Get("draft") != "new" {
		t.Fatalf("suggested %v", f)
	}
	if a := e.editor.Post("/routes/new", f); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, `id="f-mode-error"`) || !strings.Contains(a.Text, "get-v1-a-b") {
		t.Errorf("without a fail mode: %d", a.StatusCode)
	}
	f.Set("mode", "closed")
	a := e.editor.Post("/routes/new", f)
	if a.StatusCode != http.StatusSeeOther || !strings.HasSuffix(a.Header.Get("Location"), "/parts/route/get-v1-a-b") {
		t.Fatalf("a new draft: %d %s", a.StatusCode, a.Header.Get("Location"))
	}
	if page := e.editor.Get(a.Header.Get("Location")); page.StatusCode != http.StatusOK || !strings.Contains(page.Text, "{id2}") {
		t.Errorf("the route's form: %d", page.StatusCode)
	}
	if drafts, _ := e.Web.Policies.ListDrafts(t.Context()); len(drafts) != 2 {
		t.Errorf("%d drafts", len(drafts))
	}
	before := len(e.stored(t).Routes)
	f.Set("draft", strings.TrimPrefix(e.path, "/policy/drafts/"))
	if a := e.editor.Post("/routes/new", f); a.StatusCode != http.StatusSeeOther || !strings.HasPrefix(a.Header.Get("Location"), e.path) {
		t.Fatalf("an open draft: %d %.900s", a.StatusCode, a.Text)
	}
	if d := e.stored(t); len(d.Routes) != before+1 || d.Routes[before].Match[0] != "GET /v1/a/{id}/b/{id2}/{$}" {
		t.Errorf("routes %+v", e.stored(t).Routes)
	}
}

func TestRouteNew_MistakesStandBesideTheirFieldsAndNothingIsMade(t *testing.T) {
	t.Parallel()
	e := edit(t)
	good := url.Values{"name": {"fresh"}, "match": {"GET /fresh"}, "mode": {"open"}, "draft": {"new"}}
	for field, bad := range map[string]string{"name": "Bad Name", "match": "GET no-slash", "mode": "sideways", "draft": "drf_none"} {
		f := url.Values{}
		for k, v := range good {
			f[k] = v
		}
		f.Set(field, bad)
		if a := e.editor.Post("/routes/new", f); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, `id="f-`+field+`-error"`) {
			t.Errorf("%s: %d", field, a.StatusCode)
		}
	}
	if drafts, _ := e.Web.Policies.ListDrafts(t.Context()); len(drafts) != 1 {
		t.Errorf("%d drafts", len(drafts))
	}
	viewer := e.As(t, console.RoleViewer)
	if a, b := viewer.Get("/routes/new"), viewer.Post("/routes/new", good); a.StatusCode != http.StatusForbidden || b.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer: %d, %d", a.StatusCode, b.StatusCode)
	}
	if a := webtest.New(t).As(t, console.RoleEditor).Post("/routes/new", good); a.StatusCode != http.StatusConflict || !strings.Contains(a.Text, "Nothing is published") {
		t.Errorf("before the first publication: %d", a.StatusCode)
	}
}
