package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
)

const twoTests = `tests:
  - name: free is held
    given: {plan: free}
    steps:
      - {send: 61, request: GET /x, expect: {refused_by: plan.requests, at: 61}}
  - name: nobody is refused
    given: {plan: free}
    steps:
      - {send: 70, request: GET /x, expect: admitted}
`

// suite saves tests as the page's form does.
func (e edited) suite(t *testing.T, source string) string {
	t.Helper()
	f := formOn(t, e.editor.Get(e.path+"/tests").Text, e.path+"/tests")
	f.Set("source", source)
	if a := e.editor.Post(e.path+"/tests", f); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("save tests: %d %.600s", a.StatusCode, a.Text)
	}
	return e.editor.Get(e.path + "/tests").Text
}

func TestTests_RunWhenSavedAndTheFailingOnesStandFirst(t *testing.T) {
	t.Parallel()
	e := edit(t)
	if page := e.editor.Get(e.path + "/tests").Text; strings.Contains(page, "Results of the tests") || !strings.Contains(page, "Save and run") {
		t.Error("an empty suite has results")
	}
	page := e.suite(t, twoTests)
	if !strings.Contains(page, "1 of 2 tests fails") || !strings.Contains(page, "70 × GET /x → request 61 refused by plan.requests") {
		t.Fatalf("results:\n%s", page)
	}
	if strings.Index(page, "nobody is refused") > strings.Index(page, "free is held") {
		t.Error("the failing test does not stand first")
	}
	review := e.owner.Get(e.path + "/review").Text
	if !strings.Contains(review, "1 of 2 fail") || !strings.Contains(review, "Tests fail.") {
		t.Error("the review does not say that tests fail")
	}
	page = e.suite(t, strings.Replace(twoTests, "send: 70", "send: 60", 1))
	if !strings.Contains(page, "All 2 tests pass") {
		t.Error("mended tests do not pass")
	}
}

func TestTests_ProblemsAreSavedToldWithTheirLinesAndNothingRuns(t *testing.T) {
	t.Parallel()
	e := edit(t)
	page := e.suite(t, "tests:\n  - name: x\n    given: {plan: moon}\n    steps:\n      - {send: 1, request: GET /x, expect: admitted}\n")
	if !strings.Contains(page, "is not a plan of the policy") || strings.Contains(page, "Results of the tests") {
		t.Error("an unknown plan is not told, or the tests ran")
	}
	f := formOn(t, page, e.path+"/tests")
	f.Set("source", "tests: [\n<script>alert(1)</script>")
	a := e.editor.Post(e.path+"/tests", f)
	if a.StatusCode == http.StatusSeeOther {
		a = e.editor.Get(e.path + "/tests")
	}
	if !strings.Contains(a.Text, "&lt;script&gt;alert(1)") || strings.Contains(a.Text, "<script>alert") || !strings.Contains(a.Text, "of the tests") {
		t.Errorf("%d: what cannot be read is lost, or not text", a.StatusCode)
	}
}

func TestTests_LostRaceShowsBoth(t *testing.T) {
	t.Parallel()
	e := edit(t)
	f := formOn(t, e.owner.Get(e.path+"/tests").Text, e.path+"/tests")
	e.suite(t, twoTests)
	f.Set("source", "tests: []\n")
	a := e.owner.Post(e.path+"/tests", f)
	if a.StatusCode != http.StatusConflict || !strings.Contains(a.Text, "Stored now") || !strings.Contains(a.Text, "nobody is refused") || !strings.Contains(a.Text, "tests: []") {
		t.Errorf("%d", a.StatusCode)
	}
	viewer := e.As(t, console.RoleViewer)
	if a := viewer.Post(e.path+"/tests", f); a.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer saves tests: %d", a.StatusCode)
	}
	if a := viewer.Get(e.path + "/tests"); a.StatusCode != http.StatusOK || strings.Contains(a.Text, "Save and run") {
		t.Errorf("a viewer: %d", a.StatusCode)
	}
}

func TestTests_ExamplesExpectWhatTheDraftDoes(t *testing.T) {
	t.Parallel()
	e := withParts(t, everyPart)
	source := ""
	for _, which := range []string{"plan", "stranger", "recovers", "plan"} {
		f := formOn(t, e.editor.Get(e.path+"/tests").Text, e.path+"/tests")
		f.Set("source", source)
		f.Set("insert", which)
		a := e.editor.Post(e.path+"/tests", f)
		if a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d", which, a.StatusCode)
		}
		source = formOn(t, a.Text, e.path+"/tests").Get("source")
	}
	for _, want := range []string{"plan free is held", "a stranger is held on login", "username: anna", "plan free is held (2)", "refused_by"} {
		if !strings.Contains(source, want) {
			t.Errorf("the suite lacks %q:\n%s", want, source)
		}
	}
	if d, _ := e.Web.Policies.GetDraft(t.Context(), e.draft); d.Tests != "" {
		t.Error("putting an example in saves it")
	}
	if page := e.suite(t, source); !strings.Contains(page, "All 4 tests pass") {
		t.Errorf("the examples fail:\n%s", page)
	}
	f := url.Values{"source": {"- not: a suite"}, "insert": {"plan"}}
	if a := e.editor.Post(e.path+"/tests", f); a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "- not: a suite") {
		t.Errorf("what was typed is lost: %d", a.StatusCode)
	}
}

func TestTests_ScoreTellsWhatNoTestWouldNotice(t *testing.T) {
	t.Parallel()
	e := edit(t)
	e.suite(t, strings.Replace(twoTests, "send: 70", "send: 60", 1))
	page := e.editor.Get(e.path + "/tests?score=1").Text
	if !strings.Contains(page, "small changes are noticed") || !strings.Contains(page, "if route:report.reports were") || strings.Contains(page, "if plan.requests were not there on plan free") {
		t.Errorf("score:\n%s", page[strings.Index(page, `id="score"`):])
	}
}
