package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views"
)

// manyRoutes is a document of n routes and one for the rest.
func manyRoutes(n int) string {
	var b strings.Builder
	b.WriteString("apiVersion: headgate/v1\nplans:\n  free:\n    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}]\nroutes:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: r%05d, match: [\"GET /v1/r%05d/{id}\"], limits: [{name: own, per: tenant, rate: 100/minute, burst: 20}], on_store_failure: {mode: closed}}\n", i, i)
	}
	b.WriteString("  - {name: rest, match: [\"/\"], on_store_failure: {mode: closed}}\n")
	return b.String()
}

func TestDraft_IndexOfManyRoutesIsPagedAndSearched(t *testing.T) {
	t.Parallel()
	e := withParts(t, manyRoutes(3000))
	page := e.editor.Get(e.path).Text
	if n := strings.Count(page, "/parts/route/"); n > 60 || n < 40 || len(page) > 100<<10 {
		t.Errorf("the index has %d routes and %d bytes", n, len(page))
	}
	seen := 0
	for next := e.path + "?limit=200"; next != ""; {
		text := e.editor.Get(next).Text
		seen += strings.Count(text, `<th scope="row"><a href="`+e.path+`/parts/`)
		before, _, found := strings.Cut(text, `" rel="next"`)
		if next = ""; found {
			next = unescape(before[strings.LastIndex(before, `href="`)+6:])
		}
	}
	if seen != 3001+4 {
		t.Errorf("paging shows %d parts", seen)
	}
	found := e.editor.Get(e.path + "?q=R02222+own").Text
	if !strings.Contains(found, "Route r02222") || strings.Count(found, "/parts/route/") != 1 {
		t.Error("the search does not find one route")
	}
	if none := e.editor.Get(e.path + "?q=nothing-like-it").Text; !strings.Contains(none, "No part of this draft has all of") || !strings.Contains(none, "Clear the search") {
		t.Error("an empty search gives no next step")
	}
	part := e.editor.Get(e.at("route/r02999"))
	if part.StatusCode != http.StatusOK || !strings.Contains(part.Text, "Route r02998") || !strings.Contains(part.Text, "Route rest") {
		t.Errorf("%d: the part does not lead to its neighbours", part.StatusCode)
	}
	f := formOn(t, part.Text, e.at("route/r02999"))
	f.Set("l0-count", "90")
	if a := e.editor.Post(e.at("route/r02999"), f); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("save: %d", a.StatusCode)
	}
	if d := e.stored(t); d.Routes[2999].Limits[0].Rate.Tokens != 90 || len(d.Routes) != 3001 {
		t.Errorf("stored %+v", d.Routes[2999])
	}
}

func TestDraft_IndexMarksWhatDiffersFromTheBase(t *testing.T) {
	t.Parallel()
	e := edit(t)
	f := e.form(t, e.editor, "plan/free")
	f.Set("l0-count", "50")
	e.editor.Post(e.at("plan/free"), f)
	f = e.form(t, e.editor, "route/report")
	f.Set("act", "remove")
	e.editor.Post(e.at("route/report"), f)
	f = formOn(t, e.editor.Get(e.path).Text, e.path+"/add", "match")
	f.Set("name", "login/v2")
	f.Set("match", "POST /login")
	f.Set("mode", "closed")
	a := e.editor.Post(e.path+"/add", f)
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != e.path+"/parts/route/login%2Fv2" {
		t.Fatalf("%d to %s", a.StatusCode, a.Header.Get("Location"))
	}
	if part := e.editor.Get(a.Header.Get("Location")); part.StatusCode != http.StatusOK || !strings.Contains(part.Text, "Route login/v2") {
		t.Errorf("a name with a slash: %d", part.StatusCode)
	}
	changed := e.editor.Get(e.path + "?show=changed").Text
	for _, want := range []string{"Plan free", "Route login/v2", "Removed against v1: Route report", ">new<", ">changed<"} {
		if !strings.Contains(changed, want) {
			t.Errorf("the list of changes lacks %q", want)
		}
	}
	if strings.Contains(changed, "/parts/plan/pro") {
		t.Error("the list of changes has what did not change")
	}
	if part := e.editor.Get(e.at("plan/free")).Text; !strings.Contains(part, "What the draft changes here") || !strings.Contains(part, "50/minute") {
		t.Error("the part does not say what the draft changes in it")
	}
}

func TestDraft_AddingSaysWhatIsWrongAndKeepsIt(t *testing.T) {
	t.Parallel()
	e := edit(t)
	for _, c := range []struct{ kind, name, match, mode, want string }{
		{"plan", "free", "", "", "There is a plan of that name already."},
		{"plan", "", "", "", "Give the new plan a name."},
		{"route", "report", "/x", "open", "There is a route of that name already."},
		{"route", "fresh", "/fresh", "", "Say what the new route does while Redis is away."},
	} {
		d, _ := e.Web.Policies.GetDraft(t.Context(), e.draft)
		a := e.editor.Post(e.path+"/add", url.Values{"etag": {d.ETag}, "kind": {c.kind}, "name": {c.name}, "match": {c.match}, "mode": {c.mode}})
		if a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, c.want) || !strings.Contains(a.Text, `value="`+c.name+`"`) {
			t.Errorf("%+v: %d", c, a.StatusCode)
		}
	}
	a := e.editor.Post(e.path+"/add", url.Values{"etag": {"stale"}, "kind": {"plan"}, "name": {"scale"}})
	if a.StatusCode != http.StatusConflict || !strings.Contains(a.Text, "Nothing was added") {
		t.Errorf("a lost race: %d", a.StatusCode)
	}
}

// auto is a client that sends forms as the page's script does.
func (e edited) auto(t *testing.T, part string, f url.Values) (views.Autosave, int) {
	t.Helper()
	c := e.As(t, console.RoleEditor)
	c.Header.Set("X-Autosave", "1")
	f.Set("act", "save")
	a := c.Post(e.at(part), f)
	var out views.Autosave
	if err := json.Unmarshal([]byte(a.Text), &out); err != nil || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s: %v", a.StatusCode, a.Text, err)
	}
	return out, a.StatusCode
}

func TestAutosave_SavesAndTellsTheNewETagAndProblems(t *testing.T) {
	t.Parallel()
	e := edit(t)
	f := e.form(t, e.editor, "plan/free")
	f.Set("l0-count", "55")
	a, status := e.auto(t, "plan/free", f)
	if status != http.StatusOK || a.Saved == "" || a.ETag == f.Get("etag") || len(a.Problems) != 0 || a.URL != e.at("plan/free") {
		t.Fatalf("%d %+v", status, a)
	}
	f.Set("etag", a.ETag)
	f.Set("l0-per", "planet") // can be read, and makes no sense: a draft may have that
	a, status = e.auto(t, "plan/free", f)
	if status != http.StatusOK || a.Saved == "" || !strings.Contains(a.Problems["l0-per"], "is not known") {
		t.Fatalf("%d %+v", status, a)
	}
	f.Set("etag", a.ETag)
	f.Set("name", "starter")
	f.Set("l0-per", "tenant")
	if a, status = e.auto(t, "plan/free", f); status != http.StatusOK || a.URL != e.at("plan/starter") {
		t.Errorf("renamed: %d %+v", status, a)
	}
}

func TestAutosave_R098_AmbiguousNumbersAreKeptOutWithTheFieldNamed(t *testing.T) {
	t.Parallel()
	e := edit(t)
	f := e.form(t, e.editor, "plan/free")
	for typed, want := range map[string]string{"1,000": "1000", "1.000": "plain digits", "1e3": "1000", "ten": "plain digits", "": "Is missing"} {
		f.Set("l0-count", typed)
		a, status := e.auto(t, "plan/free", f)
		if status != http.StatusUnprocessableEntity || a.Saved != "" || a.ETag != f.Get("etag") || !strings.Contains(a.Problems["l0-count"], want) {
			t.Errorf("%q: %d %+v", typed, status, a)
		}
	}
	if d := e.stored(t); d.Plans["free"].Limits[0].Rate.Tokens != 60 {
		t.Errorf("stored %+v", d.Plans["free"])
	}
}

func TestAutosave_R088_LostRaceShowsBothValuesAndStoresNothing(t *testing.T) {
	t.Parallel()
	e := edit(t)
	mine := e.form(t, e.editor, "plan/free")
	theirs := e.form(t, e.owner, "plan/free")
	theirs.Set("l0-count", "41")
	e.owner.Post(e.at("plan/free"), theirs)
	mine.Set("l0-count", "43")
	a, status := e.auto(t, "plan/free", mine)
	if status != http.StatusConflict || a.Saved != "" || len(a.Conflict) == 0 || !strings.Contains(a.Conflict[0].Stored, "41") || !strings.Contains(a.Conflict[0].Yours, "43") {
		t.Fatalf("%d %+v", status, a)
	}
	if d := e.stored(t); d.Plans["free"].Limits[0].Rate.Tokens != 41 {
		t.Errorf("theirs is lost: %+v", d.Plans["free"])
	}
	mine.Set("etag", a.ETag) // saving again, knowing both
	if a, status = e.auto(t, "plan/free", mine); status != http.StatusOK {
		t.Errorf("again: %d %+v", status, a)
	}
	gone := e.form(t, e.owner, "route/report")
	gone.Set("act", "remove")
	e.owner.Post(e.at("route/report"), gone)
	if a, status = e.auto(t, "route/report", url.Values{"etag": {"x"}}); status != http.StatusConflict || !strings.Contains(a.Message, "no longer there") {
		t.Errorf("a part that is gone: %d %+v", status, a)
	}
}

func TestDraft_PartsAreForThoseWhoMayEdit(t *testing.T) {
	t.Parallel()
	e := edit(t)
	viewer := e.As(t, console.RoleViewer)
	page := viewer.Get(e.at("plan/free"))
	if page.StatusCode != http.StatusOK || strings.Contains(page.Text, "Save plan") || strings.Contains(page.Text, "data-autosave") {
		t.Errorf("a viewer: %d with buttons", page.StatusCode)
	}
	if a := viewer.Post(e.at("plan/free"), url.Values{}); a.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer saves: %d", a.StatusCode)
	}
	for _, path := range []string{"plan/none", "route/none", "route/~99", "moon", "global/x", "general/x"} {
		if a := e.editor.Get(e.at(path)); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
	f := e.form(t, e.editor, "shared")
	f.Set("act", "remove")
	if a := e.editor.Post(e.at("shared"), f); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, "not removed") {
		t.Errorf("the shared limits are removed: %d", a.StatusCode)
	}
}

// Two routes of one name each have a form of their own.
func TestDraft_RoutesOfOneNameAreToldApart(t *testing.T) {
	t.Parallel()
	e := withParts(t, strings.Replace(document, "name: everything", "name: report", 1))
	page := e.editor.Get(e.path).Text
	if !strings.Contains(page, e.at("route/report")+`"`) || !strings.Contains(page, e.at("route/~1")) {
		t.Fatalf("the index lacks one of them:\n%s", page)
	}
	f := formOn(t, e.editor.Get(e.at("route/~1")).Text, e.at("route/~1"))
	f.Set("name", "rest")
	if a := e.editor.Post(e.at("route/~1"), f); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != e.at("route/rest") {
		t.Errorf("%d to %s", a.StatusCode, a.Header.Get("Location"))
	}
	if d := e.stored(t); d.Routes[0].Name != "report" || d.Routes[1].Name != "rest" {
		t.Errorf("routes %v, %v", d.Routes[0].Name, d.Routes[1].Name)
	}
}
