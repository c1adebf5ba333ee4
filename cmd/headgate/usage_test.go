package main

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/web/api"
)

func TestUsage_ReportEventsExportAndRebuildFromAShell(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	tenant := strings.TrimSpace(d.good("tenant", "create", "Acme", "--plan", "free", "--external-id", "crm-1"))
	second := time.Now().Unix() - 60
	d.w.Use(t, ledger.Event{Second: second, Tenant: tenant, KID: "0123456789AB", Route: "report", Outcome: usage.OutcomeAdmitted, Requests: 7, Cost: 140},
		ledger.Event{Second: second, Tenant: tenant, Route: "report", Outcome: usage.OutcomeLimited, Requests: 31})

	if out := d.good("usage", "report", "--group", "tenant"); !strings.Contains(out, "complete up to:") || !strings.Contains(strings.Join(strings.Fields(out), " "), tenant+" Acme 7 140 31 0 0") {
		t.Errorf("report printed\n%s", out)
	}
	var r api.UsageReport
	if err := json.Unmarshal([]byte(d.good("usage", "report", "--range", "1h", "--tenant", tenant, "-o", "json")), &r); err != nil || r.Total.Admitted != 7 || r.Total.Cost != 140 || r.Total.Refused != 31 || r.Step != "minute" {
		t.Errorf("got %+v, %v", r.Total, err)
	}
	d.bad(2, "range", "usage", "report", "--range", "fortnight")
	d.bad(2, "tenant", "usage", "report", "--tenant", "ten_nobody")

	out := strings.Join(strings.Fields(d.good("usage", "events", "--billable")), " ")
	if !strings.Contains(out, tenant+" 0123456789AB report admitted 7 140") || strings.Contains(out, "limited") {
		t.Errorf("events printed\n%s", out)
	}
	rows, err := csv.NewReader(strings.NewReader(d.good("usage", "export", "--events"))).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	var ce api.CloudEvent
	if err := json.Unmarshal([]byte(d.good("usage", "export", "--events", "--format", "cloudevents")), &ce); err != nil || ce.Subject != "crm-1" || ce.Data.Cost != 140 || ce.SpecVersion != "1.0" {
		t.Errorf("got %+v, %v", ce, err)
	}
	if out := d.good("usage", "export", "--group", "route", "--format", "csv"); !strings.HasPrefix(out, "row,from,to,zone,") || !strings.Contains(out, ",report,,7,140,31,") {
		t.Errorf("export printed\n%s", out)
	}
	d.bad(1, "cloudevents goes with --events", "usage", "export", "--format", "cloudevents")
	if out := d.good("usage", "rebuild", "--from", time.Now().UTC().Format(time.DateOnly), "--to", "24h"); !strings.Contains(out, "0 quarters of hours were wrong") {
		t.Errorf("rebuild printed %s", out)
	}
}
