package views_test

import (
	"time"

	"github.com/a-h/templ"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// lockoutPages is who is refused now, one of them, and what a tenant's limits hold.
func lockoutPages() map[string]templ.Component {
	tabs := []ui.Tab{{Label: "All 2", URL: ui.LockoutsURL(""), Current: true}, {Label: "Tenants 1", URL: ui.LockoutsURL("kind=tenants")}}
	tenant := views.LockoutRow{URL: ui.LockoutURL("lko_a", ""), Limit: "plan.requests", Part: "rate", Subject: "ten_aaaabbbbccccdddd", Tenant: "Acme Analytics", TenantURL: ui.TenantURL("ten_a", ""),
		Route: "everything", Refusals: "1\u202f200 to 1\u202f240", First: noon.Add(-time.Hour), Last: noon, Until: "in 12 s", UntilAt: ui.Absolute(noon), Left: "0 of 60", Source: "Redis, now", CanUnlock: true}
	account := views.LockoutRow{URL: ui.LockoutURL("lko_b", ""), Limit: hostile, Part: "rate", Subject: hostile, Masked: true, Shared: true, Refusals: "3", First: noon, Last: noon,
		Until: "never by itself", Left: "–", Why: hostile, Source: "a gateway, 2 s ago"}
	strays := &views.StraysProps{Count: "2 keys", Keys: []string{`"hg:l:{3}:t:\xff" string`, hostile}, Looked: "All keys were last looked at 3 s ago.", CanRepair: true, Problem: "Say why.", Kept: hostile}
	list := views.LockoutsLiveProps{Now: noon, Poll: ui.LockoutsLiveURL(""), Tabs: tabs, Rows: []views.LockoutRow{tenant, account}, Source: "Redis, live · told by 3 of 3 gateways",
		Bound: "Refusals are bounded.", Cut: " There are more.", Strays: strays}
	failed := form.New(map[string]string{"reason": hostile})
	failed.Fail("reason", "Say why.")
	state := views.HeldStateProps{Now: noon, Source: "Redis, live", CanAct: true, ResetAction: ui.TenantStateURL("ten_a", "reset"), ReleaseAction: ui.TenantStateURL("ten_a", "release"), Act: "release", Form: failed,
		Rows: []views.HeldStateRow{{Limit: "plan.requests", Part: "rate", Used: "60 of 60 tokens", Lost: "that 60 tokens are used", Full: "in 1 min", CanReset: true},
			{Limit: "route:report.concurrency", Part: "requests at once", Used: "2 of 2 places", Lost: "the count of 2 requests under way", Full: "–", CanReset: true, LeaseCount: "2 taken, 2 shown",
				Leases: []views.LeaseRow{{ID: "AAAAAAAAAAAAAAAAAAAAAAAAAA", Replica: "gw_aaaaaaaaaaaaaaaa", Since: noon, Ends: "in 1 min"}, {ID: hostile, Replica: ui.Unknown, Ends: "in 2 s"}}},
			{Limit: hostile, Part: "rate", Used: "unknown", Lost: "what is in the key", Full: "–", Broken: true}}}
	one := views.LockoutPageProps{Frame: frame("Lockout", "/lockouts/lko_a", goodFacts()), Now: noon, Row: tenant, CanAct: true, CanExtend: true, UnlockAction: ui.LockoutURL("lko_a", "unlock"),
		ExtendAction: ui.LockoutURL("lko_a", "extend"), UnlockEffect: "Its bucket is filled.", BoostURL: "/boost", ExplainURL: ui.ExplainURL(""), State: state, UnlockKept: hostile, UnlockFail: "Say why.", ExtendFor: "4h"}
	viewer := one
	viewer.Row, viewer.CanAct, viewer.State = account, false, views.HeldStateProps{Now: noon, Problem: "It is unknown what Redis holds."}
	never := one
	never.Row, never.NoUnlock, never.CanExtend, never.State.Rows = account, "This limit admits nothing.", false, nil
	return map[string]templ.Component{
		"lockouts":          views.Lockouts(views.LockoutsProps{Frame: frame("Lockouts", "/lockouts", goodFacts()), Live: list}),
		"lockouts-empty":    views.Lockouts(views.LockoutsProps{Frame: frame("Lockouts", "/lockouts", goodFacts()), Live: views.LockoutsLiveProps{Now: noon, Poll: ui.LockoutsLiveURL(""), Tabs: tabs, Empty: "Nobody is refused."}}),
		"lockouts-filtered": views.Lockouts(views.LockoutsProps{Frame: frame("Lockouts", "/lockouts", goodFacts()), Live: views.LockoutsLiveProps{Now: noon, Poll: ui.LockoutsLiveURL(""), Tabs: tabs, Empty: "Nobody of this kind.", Filtered: true}}),
		"lockouts-down":     views.Lockouts(views.LockoutsProps{Frame: frame("Lockouts", "/lockouts", badFacts()), Live: views.LockoutsLiveProps{Now: noon, Poll: ui.LockoutsLiveURL(""), Tabs: tabs, Problem: "Redis cannot be asked."}}),
		"lockout":           views.LockoutPage(one),
		"lockout-viewer":    views.LockoutPage(viewer),
		"lockout-never":     views.LockoutPage(never),
		"lockout-over":      views.LockoutPage(views.LockoutPageProps{Frame: frame("Lockout", "/lockouts/lko_a", goodFacts()), Now: noon, Over: true}),
		"tenant-state":      views.TenantState(views.TenantStateProps{Frame: frame("Limiter state", "/tenants/ten_a/state", goodFacts()), Tenant: hostile, TenantURL: ui.TenantURL("ten_a", ""), ExplainURL: ui.ExplainTenantURL("ten_a"), State: state}),
	}
}
