package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPolicy_C06_R088_EditsThatMeetLoseNothing has two people at one draft, two
// drafts of one base, and a publication that was scheduled before its base moved.
// One of the two has no scripts.
func TestPolicy_C06_R088_EditsThatMeetLoseNothing(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	anna, owner := OpenBrowser(t, d), OpenBrowser(t, d)
	owner.WithoutJavaScript()
	anna.SignInAs(d.NewOperator("Anna", "publisher"))
	owner.SignIn(d)
	anna.Expect(http.StatusConflict)
	owner.Expect(http.StatusConflict)

	oneDraftBothValues(t, anna, owner)
	autosaveStopsAtAnothersSave(t, anna, owner)
	twoDraftsOfOneBase(t, d, anna, owner)
	scheduledBeforeItsBaseMoved(t, d, anna, owner)
}

// oneDraftBothValues: the second of two who save is told what is stored and what
// is typed, keeps what is typed, and decides.
func oneDraftBothValues(t *testing.T, anna, owner *Page) {
	t.Helper()
	draft := anna.NewDraft("one draft")
	part := draft + "/parts/plan/free"
	owner.Go(part)
	anna.SavePart(draft, "plan/free", map[string]string{"l0-burst": "50"})
	owner.Fill(map[string]string{"l0-burst": "40"})
	owner.Submit("#part button.primary")
	owner.Says("Someone saved this draft since you opened it. What you typed is still below")
	row := owner.said("main table")
	if !strings.Contains(row, "burst: 50 → 40") {
		t.Errorf("the page does not say both values: %s", row)
	}
	if typed, err := owner.value("l0-burst"); err != nil || typed != "40" {
		t.Errorf("of what was typed %q is left, %v", typed, err)
	}
	owner.Shots("edits-both-values")
	owner.Submit("#part button.primary")
	owner.Says("Saved.")
	anna.Go(part)
	if stored, err := anna.value("l0-burst"); err != nil || stored != "40" {
		t.Errorf("stored is %q, %v", stored, err)
	}
}

// autosaveStopsAtAnothersSave: a script that saves by itself never writes over
// what somebody else saved.
func autosaveStopsAtAnothersSave(t *testing.T, anna, owner *Page) {
	t.Helper()
	draft := anna.NewDraft("typed at once")
	anna.Go(draft + "/parts/plan/free")
	owner.SavePart(draft, "plan/free", map[string]string{"l0-burst": "50"})
	anna.Type("l0-burst", "45")
	anna.Says("not saved: someone else saved this draft")
	if list := anna.said("#conflict"); !strings.Contains(list, "stored: 50 yours: 45") {
		t.Errorf("the page does not say both values: %s", list)
	}
	anna.Shots("edits-autosave")
	owner.Go(draft + "/parts/plan/free")
	if stored, err := owner.value("l0-burst"); err != nil || stored != "50" {
		t.Errorf("stored is %q, %v", stored, err)
	}
	anna.Submit("#part button.primary") // Save puts hers over it
	anna.Says("Saved.")
}

// twoDraftsOfOneBase: the second draft is refused, shown against the first, merged
// with one click, and published with both changes.
func twoDraftsOfOneBase(t *testing.T, d *Demo, anna, owner *Page) {
	t.Helper()
	first, second := owner.NewDraft("plan"), anna.NewDraft("route")
	owner.SavePart(first, "plan/free", map[string]string{"l0-burst": "70"})
	anna.SavePart(second, "route/login", map[string]string{"l0-burst": "25"})
	owner.PublishDraft(first, "more for free", 2)

	anna.Go(second + "/review")
	anna.Says("v2 was published since.")
	for _, want := range []string{"plan free: limit requests, burst: 60 → 70", "route login: limit per-ip, burst: 20 → 25", "no part was changed by both"} {
		anna.Says(want)
	}
	anna.Shots("edits-stale")
	etag, err := anna.value("etag")
	anna.must(err, "read the etag")
	if status := anna.Post(second+"/publish", map[string]string{"etag": etag, "note": "all the same", "act": "publish", "strategy": "all"}); status != http.StatusConflict {
		t.Errorf("publishing what is based on v1 is answered %d", status)
	}
	anna.Submit(`form[action$="/merge"] button`)
	anna.Says("The draft is now based on v2.")
	anna.PublishDraft(second, "more logins", 3)
	doc := fmt.Sprint(d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/policy", nil)["document"])
	for _, want := range []string{"burst:70", "burst:25"} {
		if !strings.Contains(doc, want) {
			t.Errorf("v3 lacks %s: %s", want, doc)
		}
	}
}

// scheduledBeforeItsBaseMoved: it is suspended, says so, and is not published when
// its time comes; one whose base stands still is published by itself.
func scheduledBeforeItsBaseMoved(t *testing.T, d *Demo, anna, owner *Page) {
	t.Helper()
	late := anna.NewDraft("for tomorrow")
	anna.SavePart(late, "plan/free", map[string]string{"l0-burst": "80"})
	anna.Go(late + "/review")
	anna.Press(`#publish details:has([name="at"]) > summary`)
	anna.Fill(map[string]string{"note": "tomorrow", "at": time.Now().UTC().Add(24 * time.Hour).Format("2006-01-02T15:04")})
	anna.Submit(`#publish button[value="schedule"]`)
	anna.Says("Scheduled for")
	anna.Says("as Anna")
	anna.Shots("edits-scheduled")

	soon := owner.NewDraft("for now")
	owner.SavePart(soon, "plan/pro", map[string]string{"l0-burst": "550"})
	// Both are due in the same second; the first of them moves the other's base.
	at := time.Now().UTC().Add(3 * time.Second)
	d.schedule(late, at.Add(time.Millisecond))
	d.schedule(soon, at)
	owner.Reloads("/policy/versions", "by itself")
	enforces(owner, 4)

	anna.Go(late + "/review")
	anna.Says("Scheduled, but suspended")
	anna.Says("v4")
	anna.Shots("edits-suspended")
	owner.Go("/policy/drafts")
	owner.Says("schedule suspended:")
	owner.Shots("edits-drafts")
	// Its time has come, and nothing has happened.
	if v := num(d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/policy", nil), "version"); v != 4 {
		t.Errorf("v%d is in force", v)
	}
}

// PublishDraft publishes a draft by its form as a version of a number.
func (p *Page) PublishDraft(draft, note string, version int) {
	p.t.Helper()
	p.Go(draft + "/review")
	p.setIn("#publish ", "note", note)
	p.Submit(`#publish button[value="publish"]`)
	if got, want := p.Path(), fmt.Sprintf("/policy/versions/%d", version); got != want {
		p.t.Fatalf("publishing led to %s: %s", got, p.said("main"))
	}
	enforces(p, version)
}

// schedule schedules a draft by the API, to the second.
func (d *Demo) schedule(draft string, at time.Time) {
	d.t.Helper()
	path := "/api/v1" + draft
	got := d.API(http.MethodGet, path, nil)
	if got.Status != http.StatusOK {
		d.t.Fatalf("status %d: %s", got.Status, got.Body)
	}
	a := d.DoWith(http.MethodPut, path+"/schedule", http.Header{"If-Match": {got.Header.Get("ETag")}},
		map[string]any{"at": at, "note": "by itself"})
	if a.Status != http.StatusOK {
		d.t.Fatalf("schedule: status %d: %s", a.Status, a.Body)
	}
}
