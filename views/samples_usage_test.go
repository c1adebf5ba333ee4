package views_test

import (
	"fmt"
	"time"

	"github.com/a-h/templ"

	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func usageRecord(name string) views.UsageRecord {
	u := views.UsageRecord{Now: noon, Action: ui.UsageURL(""), Source: "ledger · complete up to 3 s ago", Group: "Tenant", Before: "the 7 days before",
		Filter: views.UsageFilter{Range: "7d", Group: "tenant", Top: "20", Zone: "Europe/Berlin", Ranges: []ui.Option{{Value: "24h", Label: "24 hours"}, {Value: "7d", Label: "7 days"}},
			Groups: []ui.Option{{Value: "tenant", Label: "tenant"}}, Tops: []ui.Option{{Value: "20", Label: "20"}}, Zones: []ui.Option{{Value: "Europe/Berlin", Label: "Europe/Berlin"}},
			Tenant: name, TenantName: name, KID: name, Compare: true, Active: true, Clear: ui.UsageURL(""), Problems: map[string]string{"from": "This is no day: " + name + "."}},
		Notices: []views.UsageNotice{{Kind: "bad", Lead: "41 events are lost.", Text: name, URL: ui.UsageStandingURL(), Action: "See which"}},
		Totals: []views.UsageTotal{{Label: "Admitted", Value: "5 000", Note: "requests"}, {Label: "Cost", Value: "12 400", Note: "units"}, {Label: "Refused", Value: "210 000", Note: "97.7 % of requests", Tone: "bad"},
			{Label: "Interrupted", Value: "3", Note: "not billed"}},
		CSV: "/usage.csv", JSON: "/usage.jsonl",
	}
	u.Chart = ui.BarChart{ID: "usage-bars", Title: "Requests by hour", Unit: "requests", Zone: "Europe/Berlin", Refused: true, Before: true}
	for i := range 168 {
		when := at("00:00:00").Add(time.Duration(i-144) * time.Hour)
		b := ui.Bar{When: when.Format("2 Jan 2006, 15:04"), Main: int64(300 + 200*(i%24)), Refused: int64(20 * (i % 17)), Earlier: int64(900 + i), Cost: int64(i * 7), Open: i == 160, Future: i > 160}
		if i > 160 {
			b.Main, b.Refused = 0, 0
		}
		if i%24 == 0 {
			b.Tick = when.Format("2 Jan")
		}
		u.Chart.Bars = append(u.Chart.Bars, b)
	}
	for i := range 3 {
		u.Rows = append(u.Rows, views.UsageRow{Name: name, ID: fmt.Sprint("ten_", i), URL: ui.TenantURL("ten_a", "usage"), Admitted: "5 000", Cost: "12 400", Refused: "210 000", RefusedShare: "97.7 %", Share: "60 %", Percent: 60,
			Change: "+12 %", Line: []int64{1, 4, 2, 9, 3}, LineLabel: name + ": at most 9 a step"})
	}
	u.Rows = append(u.Rows, views.UsageRow{Name: "all 41 others together", Rest: true, Admitted: "100", Cost: "100", Refused: "0", RefusedShare: "–", Share: "2 %", Change: ui.Unknown})
	heat := ui.HeatMap{Title: "Requests by weekday and hour", Unit: "requests an hour", Zone: "Europe/Berlin"}
	for d, day := range []string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"} {
		row := ui.HeatDay{Name: day}
		for h := range 24 {
			row.Hours[h] = ui.HeatCell{Known: d != 6 || h < 12, Value: int64((5 - min(d, 5)) * h * (24 - h))}
		}
		heat.Days = append(heat.Days, row)
	}
	u.Heat = &heat
	return u
}

func usageTabs() []ui.Tab {
	return []ui.Tab{{Label: "Usage", URL: ui.UsageURL(""), Current: true}, {Label: "Reconciliation", URL: ui.ReconcileURL("")}, {Label: "Completeness", URL: ui.UsageStandingURL()}, {Label: "Periods", URL: ui.UsagePeriodsURL()}}
}

// usagePages is what was used, by the ledger.
func usagePages() map[string]templ.Component {
	good, bad := goodFacts(), badFacts()
	f := frame("Usage", "/usage", good)
	empty := usageRecord("x")
	empty.Empty, empty.Filter.Active = "No usage is in the ledger for this range and these filters.", true
	standing := views.UsageStandingProps{Frame: f, Now: noon, Tabs: usageTabs(), Source: "PostgreSQL, the record", CanRepair: true, Problems: []string{hostile}, Problem: hostile, State: "held", Pager: pager(),
		Totals:   []views.UsageTotal{{Label: "Complete up to", Value: "3 s ago"}, {Label: "Lost events", Value: "41", Tone: "bad"}},
		Replicas: []views.StandingReplica{{Replica: "gw_a", Boot: hostile, Through: at("11:59:00"), Seq: "41 204", Ahead: "2", State: "warn", Word: "behind", Heard: noon}, {Replica: "gw_b", Boot: "x", State: "ok", Word: "ended"}},
		Gaps:     []views.GapRow{{Replica: "gw_a", Boot: hostile, First: "7", Last: "9", Missing: "3", Noted: at("11:00:00"), State: "bad", Word: "lost"}, {Replica: "gw_b", Boot: "x", First: "1", Last: "1", Missing: "0", Noted: at("11:00:00"), State: "ok", Word: "came later"}},
		Held:     []views.QuarantineRow{{ID: "1", Replica: "gw_a", Boot: "b", Seq: "12", Tenant: hostile, Reason: "late", Detail: hostile, Requests: "1", Cost: "2", Came: noon, Second: at("11:00:00")}, {ID: "2", Decided: noon, By: hostile, Why: hostile}}}
	period := views.PeriodRow{URL: ui.UsagePeriodURL("per_1"), Tenant: hostile, TenantURL: ui.TenantURL("ten_a", ""), From: "1 Oct 2026", To: "31 Oct 2026", Zone: "UTC", Admitted: "1", Cost: "2", Adjusted: "+3", ClosedAt: at("11:00:00"), ClosedBy: hostile, Note: hostile}
	closing := failed()
	closing.Fail("tenant", hostile)
	return map[string]templ.Component{
		"usage-full":           views.Usage(views.UsageProps{Frame: f, Tabs: usageTabs(), Usage: usageRecord("Northwind Freight")}),
		"usage-broken":         views.Usage(views.UsageProps{Frame: frame("Usage", "/usage", bad), Tabs: usageTabs(), Usage: usageRecord(hostile)}),
		"usage-empty":          views.Usage(views.UsageProps{Frame: f, Tabs: usageTabs(), Usage: empty}),
		"usage-standing":       views.UsageStanding(standing),
		"usage-standing-empty": views.UsageStanding(views.UsageStandingProps{Frame: f, Now: noon, Tabs: usageTabs(), State: "held"}),
		"usage-periods":        views.UsagePeriods(views.UsagePeriodsProps{Frame: f, Now: noon, Tabs: usageTabs(), Source: "PostgreSQL, the record", CanClose: true, Form: closing, Tenant: hostile, Rows: []views.PeriodRow{period}, Pager: pager()}),
		"usage-periods-empty":  views.UsagePeriods(views.UsagePeriodsProps{Frame: f, Now: noon, Tabs: usageTabs()}),
		"usage-period": views.UsagePeriod(views.UsagePeriodProps{Frame: f, Now: noon, Tabs: usageTabs(), Period: period, Totals: standing.Totals,
			Adjustments: []views.AdjustmentRow{{KID: hostile, Route: hostile, Outcome: "admitted", Requests: "3", Cost: "9", Events: "1", First: noon, Noted: noon}}}),
		"usage-reconcile": views.Reconcile(views.ReconcileProps{Frame: f, Now: noon, Tabs: usageTabs(), Source: "Redis and ledger · 4 s ago", Pager: pager(), Losses: []views.CounterLossRow{{Seen: noon, Took: "4 s", Lanes: "256", Tenants: "3", Raised: "2", State: "warn", Word: "rebuilt", Missing: hostile}},
			Rows: []views.ReconcileRow{{Tenant: hostile, URL: ui.TenantURL("ten_a", ""), Period: "Nov 2026", Zone: "Europe/Berlin", Counter: "12", Ledger: "10", Drift: "+2", DriftKind: "warn", Healed: at("11:00:00"), HealedBy: "raised by 12", Checked: noon},
				{Tenant: "B", URL: ui.TenantURL("ten_b", ""), Period: "Nov 2026", Zone: "UTC", Counter: ui.Unknown, Ledger: "10", Drift: ui.Unknown, DriftKind: "warn", Checked: noon}}}),
		"usage-reconcile-empty": views.Reconcile(views.ReconcileProps{Frame: f, Now: noon, Tabs: usageTabs(), Empty: "No tenant has a quota."}),
	}
}
