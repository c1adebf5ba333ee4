package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web/webtest"
)

// looser is edit with a draft that makes plan free looser, which needs no
// confirmation.
func looser(t *testing.T) edited {
	t.Helper()
	e := edit(t)
	f := e.form(t, e.editor, "plan/free")
	f.Set("l0-count", "80")
	if a := e.editor.Post(e.at("plan/free"), f); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("save: %d", a.StatusCode)
	}
	return e
}

func (e edited) rules(t *testing.T, rules ...console.ApprovalRule) {
	t.Helper()
	if err := e.Web.Policies.SetApprovalRules(t.Context(), e.Actor(console.RoleOwner), rules); err != nil {
		t.Fatal(err)
	}
}

// publishing is the form that publishes, filled in.
func (e edited) publishing(t *testing.T, c *webtest.Client) url.Values {
	t.Helper()
	f := formOn(t, c.Get(e.path+"/review").Text, e.path+"/publish")
	f.Set("act", "publish")
	f.Set("note", "they asked for it")
	return f
}

func TestReview_ApprovalByAnotherIsNeededHoldsForTheTextAndIsVoidAfterAnEdit(t *testing.T) {
	t.Parallel()
	e := looser(t)
	e.rules(t, console.ApprovalRule{When: console.WhenLooser, Approvals: 1})
	publisher := e.As(t, console.RolePublisher)
	page := e.owner.Get(e.path + "/review").Text
	for _, want := range []string{"Not ready", "Approvals are missing.", "1 approval by somebody else", "60/minute", "80/minute", "Approve this text", "Break glass"} {
		if !strings.Contains(page, want) {
			t.Errorf("the review lacks %q", want)
		}
	}
	if waits := e.owner.Get("/policy/reviews").Text; !strings.Contains(waits, e.path+"/review") || !strings.Contains(waits, "1 approval by somebody else") {
		t.Error("the draft does not wait on the page of reviews")
	}
	f := e.publishing(t, e.owner)
	if a := e.owner.Post(e.path+"/publish", f); a.StatusCode != http.StatusForbidden || !strings.Contains(a.Text, "Not published.") || !strings.Contains(a.Text, `value="they asked for it"`) {
		t.Fatalf("without the approval: %d", a.StatusCode)
	}
	approve := formOn(t, publisher.Get(e.path+"/review").Text, e.path+"/approve")
	approve.Set("note", "fine")
	if a := e.editor.Post(e.path+"/approve", approve); a.StatusCode != http.StatusForbidden {
		t.Errorf("an editor approves: %d", a.StatusCode)
	}
	stale := url.Values{"digest": {"sha256:other"}}
	if a := publisher.Post(e.path+"/approve", stale); a.StatusCode != http.StatusConflict && a.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("another text is approved: %d", a.StatusCode)
	}
	if a := publisher.Post(e.path+"/approve", approve); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("approve: %d %s", a.StatusCode, a.Text)
	}
	if page := publisher.Get(e.path + "/review").Text; !strings.Contains(page, "Ready to publish") || !strings.Contains(page, "Take my approval back") || !strings.Contains(page, "“fine”") {
		t.Error("the approval does not show")
	}
	d, _ := e.Web.Policies.GetDraft(t.Context(), e.draft)
	g := e.form(t, e.editor, "plan/free")
	g.Set("l0-count", "90")
	e.editor.Post(e.at("plan/free"), g)
	if page := e.owner.Get(e.path + "/review").Text; !strings.Contains(page, "1 approval of an earlier text no longer holds.") || !strings.Contains(page, "Approvals are missing.") || d.ETag == "" {
		t.Error("an edit does not void the approval")
	}
	approve = formOn(t, publisher.Get(e.path+"/review").Text, e.path+"/approve")
	publisher.Post(e.path+"/approve", approve)
	publisher.Post(e.path+"/withdraw", url.Values{})
	if page := e.owner.Get(e.path + "/review").Text; !strings.Contains(page, "Approvals are missing.") {
		t.Error("an approval that was taken back holds")
	}
	publisher.Post(e.path+"/approve", approve)
	if a := e.owner.Post(e.path+"/publish", e.publishing(t, e.owner)); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("publish: %d %.600s", a.StatusCode, a.Text)
	}
	if page := e.owner.Get("/policy/versions/2").Text; !strings.Contains(page, "by publisher") || !strings.Contains(page, "What it rested on") {
		t.Error("the publication page does not say who approved")
	}
	if list := e.owner.Get("/policy/versions").Text; !strings.Contains(list, `<div class="muted small">publisher</div>`) {
		t.Error("the list of versions does not say who approved")
	}
}

func TestReview_AuthorIsToldWhyThereIsNothingToApprove(t *testing.T) {
	t.Parallel()
	e := looser(t)
	e.rules(t, console.ApprovalRule{When: console.WhenAny, Approvals: 1})
	g := e.form(t, e.owner, "plan/pro")
	g.Set("l0-burst", "600")
	if a := e.owner.Post(e.at("plan/pro"), g); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("save: %d", a.StatusCode)
	}
	page := e.owner.Get(e.path + "/review").Text
	if strings.Contains(page, "Approve this text") || !strings.Contains(page, "somebody else has to approve") {
		t.Error("whoever wrote in a draft is offered to approve it")
	}
	d, _ := e.Web.Policies.Ready(t.Context(), e.Actor(console.RoleOwner), e.draft)
	if a := e.owner.Post(e.path+"/approve", url.Values{"digest": {d.Digest}}); a.StatusCode != http.StatusForbidden {
		t.Errorf("a writer approves: %d", a.StatusCode)
	}
}

func TestReview_BreakGlassWantsThePasswordAndLeavesAReviewForSomebodyElse(t *testing.T) {
	t.Parallel()
	e := looser(t)
	e.rules(t, console.ApprovalRule{When: console.WhenAny, Approvals: 2})
	if err := e.Web.Operators.SetPassword(t.Context(), e.Actor(console.RoleOwner), e.Operators[console.RoleOwner].ID, webtest.Password); err != nil {
		t.Fatal(err)
	}
	e.owner = e.Anonymous(t) // the new password ended all sessions
	if a := e.owner.Post("/signin", url.Values{"email": {"owner@example.com"}, "password": {webtest.Password}}); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("sign in: %d", a.StatusCode)
	}
	f := e.publishing(t, e.owner)
	f.Set("act", "break-glass")
	a := e.owner.Post(e.path+"/publish", f)
	if a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, `id="f-reason-error"`) || !strings.Contains(a.Text, `id="f-password-error"`) {
		t.Fatalf("without reason and password: %d", a.StatusCode)
	}
	f.Set("reason", "customers are down")
	f.Set("password", "wrong horse wrong horse")
	a = e.owner.Post(e.path+"/publish", f)
	if a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, `id="f-password-error"`) || strings.Contains(a.Text, "wrong horse") {
		t.Fatalf("a wrong password: %d", a.StatusCode)
	}
	f.Set("password", webtest.Password)
	if a = e.owner.Post(e.path+"/publish", f); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("break glass: %d %.800s", a.StatusCode, a.Text)
	}
	if page := e.owner.Get("/policy/versions/2").Text; !strings.Contains(page, "customers are down") || !strings.Contains(page, "Went without") {
		t.Error("the publication page does not say that glass was broken")
	}
	mine := e.owner.Get("/policy/reviews").Text
	if !strings.Contains(mine, "customers are down") || !strings.Contains(mine, "somebody else has to look at it") || strings.Contains(mine, "Close the review") {
		t.Error("whoever broke the glass is offered to close the review")
	}
	if a := e.owner.Post("/policy/reviews/2/close", url.Values{"note": {"fine"}}); a.StatusCode != http.StatusForbidden {
		t.Errorf("whoever broke the glass closes the review: %d", a.StatusCode)
	}
	other := e.As(t, console.RolePublisher)
	if a := other.Post("/policy/reviews/2/close", url.Values{"note": {""}}); a.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("closed without a word: %d", a.StatusCode)
	}
	if a := other.Post("/policy/reviews/2/close", url.Values{"note": {"it was right"}}); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("close: %d %.600s", a.StatusCode, a.Text)
	}
	closed := other.Get("/policy/reviews").Text
	if !strings.Contains(closed, "it was right") || !strings.Contains(closed, "Nothing is open") {
		t.Error("the closed review does not show")
	}
	for _, path := range []string{"/policy/reviews/77/close", "/policy/reviews/x/close"} {
		if a := other.Post(path, url.Values{"note": {"x"}}); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}

func TestReview_CommentsAreKeptAndEmptyOnesRefused(t *testing.T) {
	t.Parallel()
	e := looser(t)
	if a := e.owner.Post(e.path+"/comments", url.Values{"text": {"why <b>80</b>?"}}); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("comment: %d", a.StatusCode)
	}
	if page := e.editor.Get(e.path + "/review").Text; !strings.Contains(page, "why &lt;b&gt;80&lt;/b&gt;?") {
		t.Error("the comment does not show, or not as text")
	}
	if a := e.owner.Post(e.path+"/comments", url.Values{"text": {" "}}); a.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("an empty comment: %d", a.StatusCode)
	}
	if a := e.As(t, console.RoleViewer).Post(e.path+"/comments", url.Values{"text": {"x"}}); a.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer comments: %d", a.StatusCode)
	}
}

func TestReview_ScheduleIsShownSuspendedByAnEditAndTakenBack(t *testing.T) {
	t.Parallel()
	e := looser(t)
	f := e.publishing(t, e.owner)
	f.Set("act", "schedule")
	f.Set("at", "soon")
	if a := e.owner.Post(e.path+"/publish", f); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, `id="f-at-error"`) {
		t.Fatalf("no time: %d", a.StatusCode)
	}
	f.Set("at", e.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04"))
	if a := e.owner.Post(e.path+"/publish", f); a.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("in the past: %d", a.StatusCode)
	}
	f.Set("at", e.Now().UTC().Add(2*time.Hour).Format("2006-01-02T15:04"))
	if a := e.owner.Post(e.path+"/publish", f); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("schedule: %d %.600s", a.StatusCode, a.Text)
	}
	if page := e.owner.Get(e.path + "/review").Text; !strings.Contains(page, "To be published in 1 h") || !strings.Contains(page, "Take the schedule back") {
		t.Error("the schedule does not show")
	}
	if list := e.owner.Get("/policy/drafts").Text; !strings.Contains(list, "scheduled") {
		t.Error("the list of drafts does not tell the schedule")
	}
	if a := e.editor.Post(e.path+"/unschedule", url.Values{}); a.StatusCode != http.StatusForbidden {
		t.Errorf("an editor takes it back: %d", a.StatusCode)
	}
	if a := e.owner.Post(e.path+"/unschedule", url.Values{}); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("take back: %d", a.StatusCode)
	}
	if page := e.owner.Get(e.path + "/review").Text; strings.Contains(page, "To be published") {
		t.Error("the schedule is still there")
	}
}

func TestReview_ConfirmationsAreAskedBesideTheirBoxes(t *testing.T) {
	t.Parallel()
	e := edit(t)
	f := e.form(t, e.editor, "plan/free")
	f.Set("l0-count", "6")
	f.Set("l0-burst", "6")
	e.editor.Post(e.at("plan/free"), f)
	page := e.owner.Get(e.path + "/review").Text
	if !strings.Contains(page, `name="confirm.cut-half"`) || !strings.Contains(page, "High risk") {
		t.Fatal("a cut to a tenth asks nothing")
	}
	p := e.publishing(t, e.owner)
	a := e.owner.Post(e.path+"/publish", p)
	if a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, `<p class="error">`) {
		t.Errorf("without the box: %d", a.StatusCode)
	}
	p.Set("confirm.cut-half", "yes")
	if a := e.owner.Post(e.path+"/publish", p); a.StatusCode != http.StatusSeeOther {
		t.Errorf("with it: %d", a.StatusCode)
	}
	if page := e.owner.Get("/policy/versions/2").Text; !strings.Contains(page, "Confirmed") {
		t.Error("what was confirmed does not stand with the version")
	}
}

func TestBeside_TellsWhatTheSavedDraftWouldDo(t *testing.T) {
	t.Parallel()
	e := edit(t)
	if page := e.editor.Get(e.path).Text; !strings.Contains(page, `hx-get="`+e.path+`/beside"`) || !strings.Contains(page, e.path+"/review") {
		t.Error("the page does not load the panel, or says nothing without scripts")
	}
	before := e.editor.Get(e.path + "/beside").Text
	if !strings.Contains(before, "Nothing that callers could notice.") || strings.Contains(before, "<html") {
		t.Errorf("before any change:\n%s", before)
	}
	f := formOn(t, e.editor.Get(e.path+"/source").Text, e.path+"/source")
	changed := strings.Replace(f.Get("source"), "rate: 60/minute", "rate: 30/minute", 1)
	if changed == f.Get("source") {
		t.Fatalf("the draft:\n%s", changed)
	}
	f.Set("source", changed)
	e.editor.Post(e.path+"/source", f)
	after := e.editor.Get(e.path + "/beside").Text
	for _, want := range []string{"1 change", "1 tighter", "this text was not tried", "Simulate on the last 24 h"} {
		if !strings.Contains(after, want) {
			t.Errorf("the panel lacks %q:\n%s", want, after)
		}
	}
	if strings.Contains(e.owner.Get("/policy/drafts/drf_aaaaaaaaaaaaaaaa/beside").Text, "As it is saved") {
		t.Error("a draft that is not there has a panel")
	}
	viewer := e.As(t, console.RoleViewer)
	if a := viewer.Get(e.path + "/beside"); a.StatusCode != http.StatusOK || strings.Contains(a.Text, "Simulate on the last") {
		t.Errorf("a viewer: %d", a.StatusCode)
	}
}

func TestBeside_AnOutageOfAChangedFailModeIsShown(t *testing.T) {
	t.Parallel()
	e := edit(t)
	f := formOn(t, e.editor.Get(e.path+"/source").Text, e.path+"/source")
	doc, report := policy.Parse([]byte(f.Get("source")))
	if !report.OK() {
		t.Fatal(report)
	}
	open := *doc
	open.Routes = slices.Clone(doc.Routes)
	open.Routes[0].OnStoreFailure = policy.StoreFailure{Mode: policy.FailOpen, Fallback: &policy.Fallback{Unlimited: true}}
	f.Set("source", string(open.Canonical()))
	e.editor.Post(e.path+"/source", f)
	panel := e.editor.Get(e.path + "/beside").Text
	for _, want := range []string{"A minute without Redis", "no bound", open.Routes[0].Name} {
		if !strings.Contains(panel, want) {
			t.Errorf("the panel lacks %q:\n%s", want, panel)
		}
	}
}
