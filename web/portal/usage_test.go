package portal_test

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
)

// A member sees what the own tenant used, in its own zone, on the page and in the
// file, and nothing of another.
func TestUsage_R112_IsTheTenantsOwnInItsOwnZone(t *testing.T) {
	t.Parallel()
	w, a, b := world(t) // a is in Berlin
	zone, err := time.LoadLocation(a.TimeZone)
	if err != nil {
		t.Fatal(err)
	}
	now := w.Now().In(zone)
	midnight := time.Date(now.Year(), now.Month(), now.Day()-1, 0, 0, 0, 0, zone)
	w.Use(t,
		ledger.Event{Second: midnight.Unix() - 1, Tenant: a.ID, KID: "0123456789AB", Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 10, Cost: 200},
		ledger.Event{Second: midnight.Unix(), Tenant: a.ID, KID: "0123456789AB", Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 1, Cost: 20},
		ledger.Event{Second: midnight.Unix(), Tenant: a.ID, Route: "=report", Outcome: usage.OutcomeLimited, Requests: 31},
		ledger.Event{Second: midnight.Unix(), Tenant: b.ID, Route: "others-route", Outcome: usage.OutcomeAdmitted, Requests: 777, Cost: 777})
	admin := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	page := admin.Get("/t/usage?range=7d&by=key")
	wants(t, page, http.StatusOK, "0123456789AB", "Europe/Berlin", "/t/usage.csv?by=key&amp;range=7d")
	if strings.Contains(page.Text, "777") || strings.Contains(page.Text, "others-route") {
		t.Error("another tenant's usage is shown")
	}
	file := admin.Get("/t/usage.csv?range=30d")
	if file.StatusCode != http.StatusOK || file.Header.Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Fatalf("%d %v", file.StatusCode, file.Header)
	}
	rows, err := csv.NewReader(strings.NewReader(file.Text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	days := map[string]string{}
	for _, r := range rows {
		if r[0] == "step" && r[5] == "report" {
			days[r[1][:10]] = r[7]
		}
		if strings.HasPrefix(r[5], "=") {
			t.Errorf("a formula in %v", r)
		}
	}
	yesterday, before := midnight.Format(time.DateOnly), midnight.Add(-time.Second).Format(time.DateOnly)
	if days[before] != "10" || days[yesterday] != "1" {
		t.Errorf("days of %s: %v", zone, days)
	}
	if last := rows[len(rows)-1]; last[7] != "11" || last[8] != "220" || last[9] != "31" {
		t.Errorf("the total is %v", last)
	}
	if got := admin.Get("/t/usage.csv?range=fortnight"); got.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("a range that there is not: %d", got.StatusCode)
	}
}
