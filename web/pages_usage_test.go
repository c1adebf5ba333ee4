package web_test

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/web/webtest"
)

func TestUsage_KeysAreToldWithWhoseTheyAre(t *testing.T) {
	t.Parallel()
	w, tenant, kid, _ := withKey(t)
	w.Use(t, ledger.Event{Second: w.Now().Unix() - 60, Tenant: tenant.ID, KID: kid, Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 9, Cost: 9})
	c := w.As(t, console.RoleViewer)
	if text := plain(c.Get("/usage?group=key")); !strings.Contains(text, "backend of Acme "+kid) {
		t.Errorf("whose key %s is, is not told:\n%s", kid, text)
	}
	if file := w.As(t, console.RoleOwner).Get("/usage.csv?group=key"); !strings.Contains(file.Text, kid+",backend of Acme,9,") {
		t.Errorf("nor in the file (%d):\n%s", file.StatusCode, file.Text)
	}
}

// recorded is a world with a tenant that has used something.
func recorded(t *testing.T) (*webtest.World, console.Tenant) {
	t.Helper()
	w, _ := world(t)
	tenant, err := w.Web.Tenants.Create(t.Context(), w.Actor(console.RoleOwner), console.NewTenant{Name: "Acme <b>", Plan: "free", TimeZone: "Asia/Shanghai", ExternalID: "=cmd|' /C calc'!A0"})
	if err != nil {
		t.Fatal(err)
	}
	second := w.Now().Unix() - 120
	w.Use(t,
		ledger.Event{Second: second, Tenant: tenant.ID, KID: "0123456789AB", Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 5000, Cost: 12_000},
		ledger.Event{Second: second + 1, Tenant: tenant.ID, KID: "0123456789AB", Route: "report", Outcome: usage.OutcomeLimited, Requests: 210_000},
		ledger.Event{Second: second + 2, Tenant: tenant.ID, KID: "ZZ23456789AB", Route: "login", Outcome: usage.OutcomeFallbackAdmitted, Requests: 3, Cost: 3},
		ledger.Event{Second: second + 3, Tenant: tenant.ID, KID: "ZZ23456789AB", Route: "login", Outcome: ledger.OutcomeInterrupted, Requests: 7, Cost: 7},
		ledger.Event{Second: second + 4, Route: "", Outcome: usage.OutcomeNoRoute, Requests: 11},
	)
	return w, tenant
}

var tags = regexp.MustCompile(`<[^>]*>`)

// plain is an answer without its markup, and with plain blanks.
func plain(a webtest.Answer) string {
	return strings.Join(strings.Fields(strings.NewReplacer("\u202f", "", "&amp;", "&").Replace(tags.ReplaceAllString(a.Text, " "))), " ")
}

func TestUsage_R110_AdmittedCostAndRefusedAreNeverMixed(t *testing.T) {
	t.Parallel()
	w, tenant := recorded(t)
	c := w.As(t, console.RoleViewer)
	for _, path := range []string{"/usage", "/usage?range=1h", "/usage?range=7d", "/usage?range=30d&zone=America/New_York", "/tenants/" + tenant.ID + "/usage"} {
		a := c.Get(path)
		text := plain(a)
		if a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", path, a.StatusCode, text)
		}
		for _, want := range []string{"Admitted 5003 ", "Cost 12003 ", "Refused 210000 ", "Without Redis 3 ", "Interrupted 7 "} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", path, want, text)
			}
		}
	}
}

func TestUsage_GroupsLeadOn(t *testing.T) {
	t.Parallel()
	w, tenant := recorded(t)
	c := w.As(t, console.RoleViewer)
	for path, want := range map[string]string{
		"/usage?group=tenant":                                `href="/tenants/` + tenant.ID + `/usage"`,
		"/usage?group=route":                                 `href="/usage?route=report"`,
		"/usage?group=key":                                   `href="/keys/0123456789AB"`,
		"/usage?group=plan":                                  `href="/usage?plan=free"`,
		"/usage?group=outcome&by=cost":                       `href="/usage?by=cost&amp;outcome=limited"`,
		"/usage?group=gateway":                               `href="/gateways"`,
		"/usage?group=none":                                  "Requests by hour",
		"/usage?group=route&route=report&compare=1&range=7d": "complete steps only",
	} {
		wants(t, c.Get(path), http.StatusOK, want)
	}
	if a := c.Get("/usage?group=tenant"); strings.Contains(a.Text, "Acme <b>") || !strings.Contains(a.Text, "Acme &lt;b&gt;") {
		t.Error("a tenant's name is not written as text")
	}
}

func TestUsage_AskedWronglyIsSaidBesideTheField(t *testing.T) {
	t.Parallel()
	w, _ := recorded(t)
	c := w.As(t, console.RoleViewer)
	for query, want := range map[string]string{
		"range=fortnight": "This is no range.", "zone=Mars/Base": "This is no time zone.", "from=yesterday": "This is no time.", "from=2026-02-01&to=2026-01-01": "It begins after its end.",
		"group=moon": "Choose one of the list.", "by=weight": "Choose requests or cost.", "top=1000": "Between 1 and 200.", "tenant=ten_nobody": "There is no tenant with this id.",
		"range=90d&group=key": "Keys of all tenants are told for two days at most.",
	} {
		a := c.Get("/usage?" + query)
		if a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, want) {
			t.Errorf("%s: %d, %q is not said", query, a.StatusCode, want)
		}
	}
}

func TestUsage_EmptyLedgerSaysWhyAndWhatToDo(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	c := w.As(t, console.RoleViewer)
	wants(t, c.Get("/usage"), http.StatusOK, "The ledger has nothing yet.")
	wants(t, c.Get("/usage?route=report"), http.StatusOK, "No usage is in the ledger for this range and these filters.", "Show all usage")
	wants(t, c.Get("/usage/standing"), http.StatusOK, "Nothing is in quarantine", "No event is missing")
	wants(t, c.Get("/usage/periods"), http.StatusOK, "No period is closed")
}

// Ten calls at 15:59:59 and one at 16:00:00 UTC are two days in Shanghai, for the
// operator and in the file.
func TestUsage_R112_OneZoneOnThePageAndInTheFile(t *testing.T) {
	t.Parallel()
	w, tenant := recorded(t)
	noon := time.Date(w.Now().UTC().Year(), w.Now().UTC().Month(), w.Now().UTC().Day(), 16, 0, 0, 0, time.UTC)
	if !noon.Before(w.Now().Add(-time.Minute)) {
		noon = noon.AddDate(0, 0, -1)
	}
	w.Use(t, ledger.Event{Second: noon.Unix() - 1, Tenant: tenant.ID, Route: "midnight", Outcome: usage.OutcomeAdmitted, Requests: 10, Cost: 10},
		ledger.Event{Second: noon.Unix(), Tenant: tenant.ID, Route: "midnight", Outcome: usage.OutcomeAdmitted, Requests: 1, Cost: 1})
	zone, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	before, after := noon.Add(-time.Second).In(zone), noon.In(zone)
	q := url.Values{"route": {"midnight"}, "from": {before.Format(time.DateOnly)}, "to": {after.Format(time.DateOnly)}, "step": {"day"}}
	c := w.As(t, console.RoleOwner)
	text := plain(c.Get("/tenants/" + tenant.ID + "/usage?" + q.Encode()))
	for day, n := range map[time.Time]string{before: "10", after: "1"} {
		if row := day.Format("Mon 2 Jan 2006"); !regexp.MustCompile(regexp.QuoteMeta(row) + `( so far)? ` + n + ` `).MatchString(text) {
			t.Errorf("%s has not %s:\n%s", row, n, text)
		}
	}
	if !strings.Contains(text, "Asia/Shanghai") {
		t.Error("the zone is not said")
	}
	q.Set("tenant", tenant.ID)
	q.Set("zone", "Asia/Shanghai")
	a := c.Get("/usage.csv?" + q.Encode())
	for _, want := range []string{before.Format(time.DateOnly) + "T00:00:00+08:00", after.Format(time.DateOnly) + "T00:00:00+08:00"} {
		if !strings.Contains(a.Text, want) {
			t.Errorf("%s is not in the file:\n%s", want, a.Text)
		}
	}
}

func TestUsage_FilesHaveTotalsAndNoFormulas(t *testing.T) {
	t.Parallel()
	w, _ := recorded(t)
	c := w.As(t, console.RoleAuditor)
	a := c.Get("/usage.csv?range=24h&group=tenant")
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.Contains(a.Header.Get("Content-Disposition"), `.csv"`) {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	rows, err := csv.NewReader(strings.NewReader(a.Text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	last := rows[len(rows)-1]
	if got := strings.Join(last[7:12], " "); last[0] != "total" || last[5] != "" || got != "5003 12003 210000 11 7" {
		t.Errorf("the last row is %v", last)
	}
	lines := strings.Split(strings.TrimSpace(c.Get("/usage.jsonl?range=24h&group=tenant").Text), "\n")
	if len(lines) != len(rows)-1 {
		t.Errorf("%d lines, %d rows", len(lines), len(rows)-1)
	}
	for _, line := range lines {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil || v["zone"] != "UTC" {
			t.Errorf("%s: %v", line, err)
		}
	}
	if a := w.As(t, console.RoleViewer).Get("/usage.csv"); a.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer takes usage away: %d", a.StatusCode)
	}
	if a := c.Get("/usage.csv?range=fortnight"); a.StatusCode != http.StatusUnprocessableEntity || a.Header.Get("Content-Disposition") != "" {
		t.Errorf("a wrong question is answered %d", a.StatusCode)
	}
}

func TestUsage_PeriodIsClosedOnceAndShown(t *testing.T) {
	t.Parallel()
	w, tenant := recorded(t)
	c := w.As(t, console.RoleKeyAdmin)
	day := w.Now().AddDate(0, 0, -40).UTC().Format(time.DateOnly)
	a := c.Post("/usage/periods", url.Values{"tenant": {tenant.ID}, "from": {day}, "to": {day}, "note": {"invoice 7"}})
	if a.StatusCode != http.StatusSeeOther {
		t.Fatalf("closing: %d %s", a.StatusCode, plain(a))
	}
	wants(t, c.Get(a.Header.Get("Location")), http.StatusOK, "Nothing came for this period since it was closed.")
	wants(t, c.Get("/usage/periods"), http.StatusOK, "invoice 7", "Acme &lt;b&gt;")
	for field, values := range map[string]url.Values{
		"tenant": {"tenant": {"ten_nobody"}, "from": {day}, "to": {day}}, "from": {"tenant": {tenant.ID}, "from": {"x"}, "to": {day}},
	} {
		if a := c.Post("/usage/periods", values); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.Text, `id="f-`+field+`-error"`) {
			t.Errorf("%s: %d", field, a.StatusCode)
		}
	}
	if a := c.Post("/usage/periods", url.Values{"tenant": {tenant.ID}, "from": {day}, "to": {day}}); a.StatusCode != http.StatusConflict && a.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("the same period is closed again: %d", a.StatusCode)
	}
}

func TestUsage_HeldEventsAreReleasedOrDiscarded(t *testing.T) {
	t.Parallel()
	w, tenant := recorded(t)
	late := w.Now().Add(-100 * time.Hour).Unix()
	w.Use(t, ledger.Event{Second: late, Tenant: tenant.ID, Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 77, Cost: 77},
		ledger.Event{Second: late, Tenant: tenant.ID, Route: "login", Outcome: usage.OutcomeAdmitted, Requests: 78, Cost: 78})
	c := w.As(t, console.RoleOwner)
	a := c.Get("/usage/standing")
	wants(t, a, http.StatusOK, "late", tenant.ID)
	ids := regexp.MustCompile(`/usage/held/(\d+)/release`).FindAllStringSubmatch(a.Text, -1)
	if len(ids) != 2 {
		t.Fatalf("%d held events", len(ids))
	}
	if a := c.Post("/usage/held/"+ids[0][1]+"/release", url.Values{"reason": {""}}); a.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("without a reason: %d", a.StatusCode)
	}
	for i, done := range []string{"released", "discarded"} {
		act := []string{"release", "discard"}[i]
		if a := c.Post("/usage/held/"+ids[i][1]+"/"+act, url.Values{"reason": {"looked into"}}); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("%s: %d %s", act, a.StatusCode, plain(a))
		}
		wants(t, c.Get("/usage/standing?state="+done), http.StatusOK, "looked into")
	}
	if a := w.As(t, console.RoleViewer).Post("/usage/held/"+ids[0][1]+"/release", url.Values{"reason": {"x"}}); a.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer releases: %d", a.StatusCode)
	}
	if a := c.Post("/usage/held/x/release", url.Values{"reason": {"x"}}); a.StatusCode != http.StatusNotFound {
		t.Errorf("no number: %d", a.StatusCode)
	}
}

func TestUsage_PagesOfTheLedgerHaveOneZoneListAndEveryRange(t *testing.T) {
	t.Parallel()
	w, tenant := recorded(t)
	c := w.As(t, console.RoleViewer)
	for _, r := range []string{"1h", "24h", "7d", "30d", "90d", "month", "last-month", "12m"} {
		for _, extra := range []string{"", "&group=route&by=cost&compare=1", "&zone=Australia/Sydney"} {
			for _, base := range []string{"/usage?", "/tenants/" + tenant.ID + "/usage?"} {
				if a := c.Get(base + "range=" + r + extra); a.StatusCode != http.StatusOK {
					t.Errorf("%srange=%s%s: %d %s", base, r, extra, a.StatusCode, plain(a))
				}
			}
		}
	}
	if !slices.Contains(strings.Fields(plain(c.Get("/usage?zone=Africa/Nairobi"))), "Africa/Nairobi") {
		t.Error("a zone that the list lacks is not kept")
	}
}
