package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

func TestVersions_SayWhatIsUnknownAndADraftLeadsToItsVersion(t *testing.T) {
	t.Parallel()
	e := edit(t)
	d, err := e.Web.Policies.GetDraft(t.Context(), e.draft)
	if err != nil {
		t.Fatal(err)
	}
	d, err = e.Web.Policies.SaveDraft(t.Context(), e.Actor(console.RoleEditor), d.ID, d.ETag, []byte(strings.Replace(document, "burst: 60", "burst: 61", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Web.Policies.PublishDraft(t.Context(), e.Actor(console.RoleOwner), d.ID, d.ETag, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"", "/parts/general", "/source", "/tests", "/simulate", "/review"} {
		if a := e.editor.Get(e.path + page); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/policy/versions/2" {
			t.Errorf("%s: %d, %q", page, a.StatusCode, a.Header.Get("Location"))
		}
	}
	if a := e.editor.Get("/policy/drafts/drf_aaaaaaaaaaaaaaaa"); a.StatusCode != http.StatusNotFound {
		t.Errorf("a draft that never was: %d", a.StatusCode)
	}
	page := e.editor.Get("/policy/versions").Text
	for _, want := range []string{"On all after", "unknown → unknown"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	told := func() bool { // what gateways said last may be a second old
		if err := e.Web.Effects.Note(t.Context()); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(e.editor.Get("/policy/versions").Text, ", 3 gateways")
	}
	for until := time.Now().Add(10 * time.Second); !told(); <-time.After(100 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the page does not say on how many it is")
		}
	}
}

func TestTests_OfADraftThatCannotBeReadSayWhyNothingRuns(t *testing.T) {
	t.Parallel()
	e := edit(t)
	e.suite(t, twoTests)
	f := formOn(t, e.editor.Get(e.path+"/source").Text, e.path+"/source")
	f.Set("source", "apiVersion: headgate/v1\nroutes: [")
	e.editor.Post(e.path+"/source", f)
	page := e.editor.Get(e.path + "/tests").Text
	if !strings.Contains(page, "No test runs: the draft cannot be read as a policy (") || strings.Contains(page, "Results of the tests") {
		t.Errorf("the page:\n%.3000s", page)
	}
}
