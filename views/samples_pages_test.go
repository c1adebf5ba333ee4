package views_test

import (
	"maps"
	"math"
	"time"

	"github.com/a-h/templ"

	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// pages is every page with full, empty, broken and hostile data.
func pages() map[string]templ.Component {
	all := make(map[string]templ.Component)
	for _, some := range []map[string]templ.Component{
		overviewPages(), tenantPages(), keyPages(), rotationPages(), overridePages(), leakPages(), alertPages(), bulkPages(), gatewayPages(), usagePages(), explainPages(), lockoutPages(), advisorPages(),
	} {
		maps.Copy(all, some)
	}
	return all
}

func options() []ui.Option {
	return []ui.Option{{Value: "", Label: "Choose…"}, {Value: "free", Label: "free"}, {Value: "pro", Label: "pro"}}
}

func pager() ui.PagerProps {
	return ui.PagerProps{Shown: 50, Total: "about 10 000", First: "/tenants", Next: "/tenants?after=x", Sizes: []ui.PageSize{{N: 50, URL: "/tenants", Current: true}, {N: 100, URL: "/tenants?limit=100"}}}
}

// overviewPages is the first page and those of faults.
func overviewPages() map[string]templ.Component {
	good, bad := goodFacts(), badFacts()
	nothing := overview("x")
	nothing.Tenants, nothing.Limits, nothing.Changes, nothing.Coming, nothing.ComingUnknown = nil, nil, nil, nil, "What comes up cannot be read right now."
	nothing.Checklist = []views.Step{{Done: true, Label: "Publish a policy.", Hint: "Plans, routes, limits."}, {Label: "Make a tenant.", Hint: "A customer.", URL: ui.TenantNewURL(), Action: "New tenant"}, {Unknown: true, Label: "Start a gateway."}, {Label: "Send a first request.", Hint: "With the key."}}
	for i := range nothing.Stats {
		nothing.Stats[i].Value, nothing.Stats[i].Values = ui.Unknown, nil
	}
	return map[string]templ.Component{
		"overview-full":    views.Overview(views.OverviewProps{Frame: frame("Overview", "/overview", good), Live: overview("Northwind Freight")}),
		"overview-empty":   views.Overview(views.OverviewProps{Frame: frame("Overview", "/overview", ui.Facts{Now: noon}), Live: nothing}),
		"overview-broken":  views.Overview(views.OverviewProps{Frame: frame("Overview", "/overview", bad), Live: overview(hostile)}),
		"fault":            views.ErrorPage(views.ErrorProps{Frame: frame("Not Found", "/x", good), Status: 404, Title: "Not Found", Message: hostile, RequestID: "ABC"}),
		"fault-signed-out": views.ErrorPage(views.ErrorProps{Frame: ui.FrameProps{Environment: "production"}, Status: 503, Title: "Service Unavailable", Message: "Sessions cannot be read right now.", RequestID: "ABC"}),
	}
}

// tenantPages is tenants, their lists, forms and tabs.
func tenantPages() map[string]templ.Component {
	good, bad := goodFacts(), badFacts()
	rot := rotation("overlap")
	emptyUsage := usageLive(true)
	emptyUsage.Routes, emptyUsage.Limits = nil, nil
	for i := range emptyUsage.Chart.Series {
		emptyUsage.Chart.Series[i].Values = []float64{math.NaN(), math.NaN()}
	}
	rows := []views.TenantRow{{ID: "ten_aaaabbbbccccdddd", Name: "Acme Analytics", ExternalID: "crm-1042", Plan: "pro", State: "active", Requests: "96", Line: []int64{1, 5, 3}, DayRefused: "4.1 %", Quota: ui.QuotaBar{Known: true, Percent: 85, Hard: 120, Text: "85 %", Forecast: "runs out 3 Dec", Tone: "warn"}, Keys: "3 active, 1 retiring", Day: "812 400", Overrides: "2", NextEnd: noon.Add(time.Hour), Seen: at("11:59:00"), Created: at("08:00:00")},
		{ID: "ten_x", Name: hostile, ExternalID: hostile, Plan: hostile, State: "suspended", Requests: ui.Unknown, DayRefused: ui.Unknown, Quota: ui.QuotaBar{Text: ui.Unknown}, Created: at("08:00:00")}}
	summary := func(h views.TenantHeadProps, v string, l []views.HeldRow, u views.UsageLiveProps) templ.Component {
		return views.TenantSummary(views.TenantSummaryProps{Quota: &views.QuotaPanel{Text: hostile, Bar: ui.QuotaBar{Known: true, Percent: 50, Text: hostile}, Left: "1", Starts: "1 Nov", Resets: "1 Dec", Forecast: hostile, Granted: "5", Redis: "1", Ledger: "2", ReconciliationURL: ui.ReconcileURL("")}, Head: h, Version: v, Limits: l, Usage: u,
			Deletion: &views.TenantDeletion{Effect: "3 keys will be refused.", Name: hostile, NameError: "This is not the tenant's name.", Reason: hostile, Open: true}})
	}
	missing := head("", "active", "Tern & Sons", bad)
	missing.PlanMissing, missing.Problem, missing.Reason = true, "Say why.", hostile
	block := views.CredentialBlock{ID: "crd_1", Name: hostile, Environment: "live", Scopes: "read write", Versions: keys("backend"), Rotation: &rot}

	return map[string]templ.Component{
		"tenants-full":      views.TenantList(views.TenantListProps{Frame: frame("Tenants", "/tenants", good), Now: noon, Plans: options(), LiveAge: "live, not the record · 2 s ago", Rows: rows, Pager: pager(), CanManage: true}),
		"tenants-empty":     views.TenantList(views.TenantListProps{Frame: frame("Tenants", "/tenants", good), Now: noon, Plans: options(), CanManage: true}),
		"tenants-filtered":  views.TenantList(views.TenantListProps{Frame: frame("Tenants", "/tenants", good), Now: noon, Plans: options(), Q: hostile, Filtered: true}),
		"tenant-new":        views.TenantForm(views.TenantFormProps{Frame: frame("New tenant", "/tenants/new", good), Form: filled(nil), Title: "New tenant", Action: "/tenants", Button: "Make tenant", Back: "/tenants", Plans: options(), NoPlans: true, Token: "ABCDEFGHIJKLMNOPQRST"}),
		"tenant-failed":     views.TenantForm(views.TenantFormProps{Frame: frame("New tenant", "/tenants/new", good), Form: failed(), Title: "Edit " + hostile, Action: "/tenants", Button: "Save", Back: "/tenants", Plans: options()}),
		"tenant-summary":    summary(head("", "active", "Acme Analytics", good), "v42", held(), usageLive(false)),
		"tenant-suspended":  summary(head("", "suspended", hostile, good), "v42", nil, emptyUsage),
		"tenant-broken":     summary(missing, "", nil, emptyUsage),
		"tenant-overrides":  views.TenantOverrides(views.TenantOverridesProps{Head: head("overrides", "active", "Acme Analytics", good), Live: ownOverrides(), Ended: endedOverrides()}),
		"tenant-own-none":   views.TenantOverrides(views.TenantOverridesProps{Head: head("overrides", "active", "Acme Analytics", good)}),
		"tenant-usage":      views.TenantUsage(views.TenantUsageProps{Record: usageRecord("Acme"), Head: head("usage", "active", "Acme Analytics", good), Usage: usageLive(true)}),
		"tenant-keys":       views.TenantKeys(views.TenantKeysProps{Head: head("keys", "active", "Acme Analytics", good), Credentials: []views.CredentialBlock{block}, NewURL: ui.TenantURL("ten_a", "keys") + "/new"}),
		"tenant-keys-empty": views.TenantKeys(views.TenantKeysProps{Head: head("keys", "active", "Acme Analytics", good), NewURL: ui.TenantURL("ten_a", "keys") + "/new"}),
		"tenant-audit":      views.TenantAudit(views.TenantAuditProps{Head: head("audit", "active", "Acme Analytics", good), Rows: []views.EventRow{{Seq: "7", At: at("11:00:00"), Actor: hostile, Via: "api", Text: "Tenant changed", Object: "ten_a", Detail: hostile, Reason: hostile}}}),
	}
}

// keyPages is keys, and what issues and shows them.
func keyPages() map[string]templ.Component {
	good := goodFacts()
	keyFailed := keyPage()
	keyFailed.Act, keyFailed.Problem, keyFailed.Reason = "revoke", "Choose a reason.", ""
	secret := views.SecretProps{Frame: frame("Key issued", "/tenants/ten_a/keys", good), Title: "Key issued", Secret: "hg_live_0123456789AB_abcdefghijklmnopqrstuvwxyz0123450mwVJp", KID: "0123456789AB", TenantName: hostile, Credential: hostile, Environment: "live",
		Converged: "accepted on 3 of 3 gateways after 0.1 s", HeaderName: "Authorization", HeaderValue: "Bearer hg_live_0123456789AB_abcdefghijklmnopqrstuvwxyz0123450mwVJp", Next: ui.TenantURL("ten_a", "keys"), NextLabel: "I have copied it", Overlap: "The old key works until 2026-12-07."}
	slow := secret
	slow.Pending = &ui.Pending{Text: "The new key: accepted on 1 of 3 gateways so far; the others follow as they hear of it.", Poll: ui.ChangeLiveURL(7, "issue")}
	return map[string]templ.Component{
		"secret-slow":       views.Secret(slow),
		"keys-full":         views.KeyList(views.KeyListProps{Frame: frame("Keys", "/keys", good), Now: noon, Rows: keys(hostile), Pager: pager()}),
		"keys-empty":        views.KeyList(views.KeyListProps{Frame: frame("Keys", "/keys", good), Now: noon}),
		"key":               views.KeyPage(keyPage()),
		"key-failed":        views.KeyPage(keyFailed),
		"credential-new":    views.CredentialForm(views.CredentialFormProps{Frame: frame("Issue a key", "/tenants/ten_a/keys/new", good), Form: filled(map[string]string{"environment": "live"}), TenantName: "Acme", Action: "/x", Back: "/x", Token: "ABCDEFGHIJKLMNOPQRST"}),
		"credential-failed": views.CredentialForm(views.CredentialFormProps{Frame: frame("Issue a key", "/tenants/ten_a/keys/new", good), Form: failed(), TenantName: hostile, Action: "/x", Back: "/x", Token: "ABCDEFGHIJKLMNOPQRST"}),
		"secret":            views.Secret(secret),
		"replay":            views.Replay(views.ReplayProps{Frame: frame("Already done", "/tenants/ten_a/keys", good), Title: "This was already done", Text: "The same form was sent before.", URL: "/tenants", Label: hostile}),
	}
}

func keyPage() views.KeyPageProps {
	return views.KeyPageProps{Frame: frame("Key", "/keys/0123456789AB", goodFacts()), Now: noon, Key: keys(hostile)[0], Scopes: []string{"read", hostile}, Versions: keys("backend"), CanRotate: true, RotateURL: ui.CredentialURL("crd_1", "rotate"), UseEffect: "How much it is used is unknown now.", UseAge: "use is unknown", Sources: []views.SourceRow{{Network: "192.0.2.0/24", Agent: hostile, First: at("08:00:00"), Last: at("11:59:00"), Requests: "12", Refused: "0"}},
		Timeline: views.TimelineProps{From: at("07:00:00"), To: noon, Lives: []views.LifeProps{{KID: "0123456789AB", Words: "active", Start: at("11:00:00"), End: noon}, {KID: "ZZ23456789AB", Words: "retiring", Start: at("07:00:00"), Retiring: at("11:00:00"), End: noon}}}, AuditURL: "/tenants/ten_a/audit"}
}

// rotationPages is rotations.
func rotationPages() map[string]templ.Component {
	good := goodFacts()
	rot := rotation("overlap")
	rotPage := views.RotationPageProps{Frame: frame("Rotation", "/rotations/rot_1", good), Now: noon, Rotation: rot, Masked: "hg_live_ZZ23456789AB_…", NewMasked: "hg_live_0123456789AB_…", Extended: 1, CanAct: true, Extends: options(), By: "24h",
		EndEffect: "1 source still uses it.", CancelEffect: "Nobody is known to use the new key yet.", Brownouts: []views.BrownoutRow{{Network: "192.0.2.0/24", From: at("11:00:00"), Until: at("11:01:00"), Author: hostile, Reason: hostile}, {From: at("11:10:00"), Until: at("11:11:00"), Stopped: at("11:10:20")}},
		Live: views.RotationLiveProps{Now: noon, Poll: ui.RotationLiveURL("rot_1"), State: "overdue", Left: "7 h left", Running: true, WhyNot: hostile, ReadyAt: noon.Add(time.Hour), UseAge: "use known up to 12 s ago", Lines: []string{"Both keys are accepted and share the tenant's limits."},
			BrownURL: ui.RotationURL("rot_1", "brownout"), StopURL: ui.RotationURL("rot_1", "brownout/stop"), Brownout: &views.BrownoutRow{Network: "192.0.2.0/24", Left: "42 s", Refused: "17"},
			Sources: []views.RotationSource{{Network: "192.0.2.0/24", Brown: "192.0.2.0/24", Agent: hostile, Stand: "warn", Word: "uses the old key", OldRequests: "12", OldRefused: "17", NewRequests: "0", OldLast: at("11:59:00")}, {Network: "all others", Stand: "ok", Word: "has switched", OldRequests: "3", NewRequests: "9", OldLast: at("09:00:00"), NewLast: at("11:59:00")}}}}
	rotFailed := rotPage
	rotFailed.Act, rotFailed.Problem, rotFailed.Reason = "end", "Say why.", hostile
	return map[string]templ.Component{
		"rotations":       views.RotationList(views.RotationListProps{Frame: frame("Rotations", "/rotations", good), Now: noon, Tabs: []ui.Tab{{Label: "Under way", URL: "/rotations", Current: true}}, Rows: []views.RotationRow{rot, rotation("cancelled"), rotation("overdue")}, Pager: pager()}),
		"rotations-empty": views.RotationList(views.RotationListProps{Frame: frame("Rotations", "/rotations", good), Now: noon, Empty: "No rotation is under way."}),
		"rotation-new":    views.RotationForm(views.RotationFormProps{Frame: frame("Rotate", "/credentials/crd_1/rotate", good), Now: noon, UseAge: "use known up to 12 s ago", Sources: keyPage().Sources, Form: failed(), Credential: hostile, TenantName: hostile, OldKID: "ZZ23456789AB", OldEnds: "The old key ends by itself on 2026-12-09.", Overlaps: options(), Action: "/x", Back: "/x", Token: "ABCDEFGHIJKLMNOPQRST"}),
		"rotation":        views.RotationPage(rotPage),
		"rotation-failed": views.RotationPage(rotFailed),
	}
}

// overridePages is overrides and boosts.
func overridePages() map[string]templ.Component {
	good := goodFacts()
	ownFailed := ownOverrides()[0]
	ownFailed.Act, ownFailed.Problem, ownFailed.Kept = "end", "Say why.", hostile
	return map[string]templ.Component{
		"overrides":       views.OverrideList(views.OverrideListProps{Frame: frame("Overrides", "/overrides", good), Now: noon, Limit: hostile, Filtered: true, Withins: options(), Rows: append(ownOverrides(), endedOverrides()...), Pager: pager()}),
		"overrides-empty": views.OverrideList(views.OverrideListProps{Frame: frame("Overrides", "/overrides", good), Now: noon}),
		"override":        views.OverridePage(views.OverridePageProps{Frame: frame("Override", "/overrides/ovr_1", good), Now: noon, Row: ownFailed}),
		"override-ended":  views.OverridePage(views.OverridePageProps{Frame: frame("Override", "/overrides/ovr_3", good), Now: noon, Row: endedOverrides()[0]}),
		"boost":           views.BoostForm(views.BoostFormProps{Frame: frame("Boost", "/tenants/ten_a/boost", good), Form: failed(), TenantName: hostile, Limits: options(), Factors: options(), Spans: options(), Now: hostile, Action: "/x", Back: "/x", Bound: "Up to ×2."}),
		"override-choose": views.OverrideForm(views.OverrideFormProps{Frame: frame("Set", "/tenants/ten_a/override", good), Now: noon, Form: failed(), TenantName: hostile, Limits: options(), Action: "/x", Back: "/x"}),
		"override-rate":   views.OverrideForm(views.OverrideFormProps{Frame: frame("Set", "/tenants/ten_a/override", good), Now: noon, Form: failed(), TenantName: hostile, Limit: held()[0], Kind: "rate", AskLower: hostile, Action: "/x", Back: "/x"}),
		"override-quota":  views.OverrideForm(views.OverrideFormProps{Frame: frame("Set", "/tenants/ten_a/override", good), Now: noon, Form: filled(nil), TenantName: "Acme", Limit: held()[1], Kind: "quota", Action: "/x", Back: "/x"}),
		"override-places": views.OverrideForm(views.OverrideFormProps{Frame: frame("Set", "/tenants/ten_a/override", good), Now: noon, Form: filled(nil), TenantName: "Acme", Limit: held()[1], Kind: "concurrency", Action: "/x", Back: "/x"}),
	}
}

func held() []views.HeldRow {
	return []views.HeldRow{{ID: "plan.requests", Applies: "every route", Per: "tenant", Counts: "each request is one", Value: "×2: 18000/minute, burst 1000", Shadow: true, Peak: "412/min, 38 min seen",
		BoostURL: "/tenants/ten_a/boost?limit=plan.requests", SetURL: "/tenants/ten_a/override?limit=plan.requests",
		Steps: []views.LimitStepRow{{Source: "plan pro", Text: "6000/minute, burst 500"}, {Source: "override", Text: "9000/minute, burst 500", Reason: hostile, By: hostile}, {Source: "boost", Text: "×2: 18000/minute, burst 1000", Until: noon.Add(time.Hour)}}},
		{ID: "plan.quota", Applies: "route " + hostile, Per: hostile, Value: ui.Unknown, Peak: ui.Unknown, Steps: []views.LimitStepRow{{Source: "plan pro", Text: "20 000 a month"}}}}
}

func ownOverrides() []views.OverrideRow {
	return []views.OverrideRow{{ID: "ovr_1", Limit: "plan.requests", Tenant: hostile, TenantURL: ui.TenantURL("ten_a", "overrides"), Plan: hostile, Kind: "boost", Base: "6000/minute", Value: "×2: 12000/minute", Reason: hostile, By: hostile, Created: at("11:00:00"), Expires: noon.Add(time.Hour), Peak: "412/min", CanAct: true},
		{ID: "ovr_2", Limit: "route:gone.x", Tenant: "Acme", TenantURL: ui.TenantURL("ten_a", "overrides"), Kind: "override", Value: "0", WithoutEffect: true, Peak: "–"}}
}

func endedOverrides() []views.OverrideRow {
	return []views.OverrideRow{{ID: "ovr_3", Tenant: "Acme", TenantURL: ui.TenantURL("ten_a", "overrides"), Limit: "plan.requests", Kind: "override", Value: "10/minute", Ended: at("09:00:00"), EndedBy: "headgate", EndReason: hostile, Peak: "–"}}
}

// leakPages is leaks.
func leakPages() map[string]templ.Component {
	good := goodFacts()
	cases := []views.LeakCaseRow{{ID: "lek_1", KID: "0123456789AB", Tenant: hostile, TenantURL: ui.TenantURL("ten_a", "keys"), State: "open", Source: hostile, Kind: hostile, URL: hostile, Note: hostile, Found: at("11:00:00"), Reports: "reported 3 times", CanDismiss: true, Problem: "Say why.", Kept: hostile},
		{ID: "lek_2", KID: "AA23456789AB", Tenant: "Acme", TenantURL: ui.TenantURL("ten_a", "keys"), State: "contained", Source: "console", Done: "revoked and replaced", ClosedBy: hostile, Found: at("07:00:00")}}
	found := []views.LeakFound{{Key: keys(hostile)[0], Ours: true, Masked: "hg_live_0123456789AB_…", Sources: keyPage().Sources, Cases: cases, Effect: "It is refused.", Form: failed()},
		{Key: keys("backend")[2], Ours: true, Masked: "hg_live_AA23456789AB_…", Form: filled(nil)}, {Masked: "hg_test_000000000000_…", Form: filled(nil)},
		{Masked: "hg_ops_000000000001_…", Ours: true, Operator: hostile, KID: "000000000001", Form: filled(nil)}, {Masked: "hg_ops_000000000002_…", Ours: true, Operator: "Ops", Revoked: true, Form: filled(nil)}}
	return map[string]templ.Component{
		"leaks":       views.LeakPage(views.LeakPageProps{Frame: frame("Leaks", "/leaks", good), Now: noon, Tabs: []ui.Tab{{Label: "All", URL: "/leaks", Current: true}}, Cases: cases, Pager: pager(), CanManage: true}),
		"leaks-none":  views.LeakPage(views.LeakPageProps{Frame: frame("Leaks", "/leaks", good), Now: noon, Asked: true, None: "There is no key in this text.", Problem: "Paste a text."}),
		"leaks-found": views.LeakPage(views.LeakPageProps{Frame: frame("Leaks", "/leaks", good), Now: noon, Asked: true, UseAge: "use known up to 12 s ago", Found: found, CanManage: true}),
	}
}

// bulkPages is bulk jobs.
func bulkPages() map[string]templ.Component {
	good := goodFacts()
	return map[string]templ.Component{
		"bulk":        views.BulkList(views.BulkListProps{Frame: frame("Bulk jobs", "/bulk", good), Now: noon, Kinds: options(), Rows: []views.BulkRow{{ID: "blk_1", Title: "Import keys", Name: hostile, State: "running", Progress: "312 of 400 rows done", Author: hostile, Created: at("11:00:00")}}, Pager: pager(), CanManage: true}),
		"bulk-empty":  views.BulkList(views.BulkListProps{Frame: frame("Bulk jobs", "/bulk", good), Now: noon, Kinds: options(), CanManage: true}),
		"bulk-choose": views.BulkForm(views.BulkFormProps{Frame: frame("New", "/bulk/new", good), Form: filled(nil), Kinds: []views.BulkKindCard{{Kind: "import-keys", Title: "Import keys", Text: hostile}}}),
		"bulk-import": views.BulkForm(views.BulkFormProps{Frame: frame("New", "/bulk/new", good), Form: failed(), Kind: "import-keys", Title: "Import keys", Imports: true, Columns: "Columns: kid.", Token: "ABCDEFGHIJKLMNOPQRST"}),
		"bulk-unused": views.BulkForm(views.BulkFormProps{Frame: frame("New", "/bulk/new", good), Form: failed(), Kind: "revoke-unused", Title: "Revoke unused keys", Plans: options()}),
		"bulk-expiry": views.BulkForm(views.BulkFormProps{Frame: frame("New", "/bulk/new", good), Form: failed(), Kind: "set-expiry", Title: "Set an end", Plans: options(), KIDs: []string{hostile}, Selected: "1 key chosen"}),
		"bulk-plan":   views.BulkForm(views.BulkFormProps{Frame: frame("New", "/bulk/new", good), Form: failed(), Kind: "change-plan", Title: "Change options()", Plans: options()}),
		"bulk-job": views.BulkJob(views.BulkJobProps{Frame: frame("Job", "/bulk/blk_1", good), Reason: hostile, Undo: "Run it the other way.", Message: hostile, Tabs: []ui.Tab{{Label: "All 2", URL: "/bulk/blk_1", Current: true}}, Pager: pager(),
			Moves: []views.BulkMove{{Title: "12 tenants from free to pro", Rows: []ui.DiffRow{{Path: "plan.requests", Kind: "changed", Before: "60/minute", After: "6000/minute", Effect: "looser"}}}, {Title: "1 tenant from a to b"}},
			Rows:  []views.BulkOutcome{{Line: "1", Subject: "ten_a", URL: ui.TenantURL("ten_a", ""), Tone: "ok", Outcome: "done", Message: hostile}, {Line: "2", Subject: hostile, Tone: "bad", Outcome: "left out", Message: "kid: taken"}},
			Live: views.BulkLiveProps{Now: noon, ID: "blk_1", Poll: "/live/bulk/blk_1", Title: "Change options()", Name: hostile, State: "running", Problem: hostile, Sentence: "312 of 400 rows done.", Share: 78, ShareText: "312 of 400 rows", Author: hostile, StartedBy: hostile, EndedBy: hostile, Created: at("11:00:00"), Started: at("11:01:00"), Ended: at("11:02:00"),
				Counts: []views.BulkCount{{Label: "Rows", Value: "400"}, {Label: "Failed", Value: "3", Tone: "bad"}}, CanStart: true, CanCancel: true, StartEffect: "400 rows are changed."}}),
		"bulk-job-empty": views.BulkJob(views.BulkJobProps{Frame: frame("Job", "/bulk/blk_1", good), NoRows: "No row is so.", Live: views.BulkLiveProps{Now: noon, ID: "blk_1", Title: "Import keys", State: "failed", Sentence: "The input as a whole cannot be used.", Share: -1}}),
	}
}

// gatewayPages is gateways.
func gatewayPages() map[string]templ.Component {
	good, bad := goodFacts(), badFacts()
	loss := views.LossProps{Version: "v42", Title: "If Redis failed now", Replicas: "3 live gateways, policy v42", Rows: []views.LossRow{
		{Route: "login", Mode: "closed", Text: "Everything is refused with 503.", Bound: "0"},
		{Route: "report", Mode: "open", Text: "Each gateway admits 200/minute, burst 200, to each subject.", Bound: "1 200"},
		{Route: hostile, Mode: "open", Text: "Everything is admitted and counted.", Bound: "no bound", Danger: true}}}
	return map[string]templ.Component{
		"gateways-full":   views.GatewayList(views.GatewayListProps{Frame: frame("Gateways", "/gateways", good), Live: gateways(true), Loss: loss}),
		"gateways-broken": views.GatewayList(views.GatewayListProps{Frame: frame("Gateways", "/gateways", bad), Live: gateways(false), Loss: views.LossProps{Title: "If Redis failed now"}}),
		"gateways-empty":  views.GatewayList(views.GatewayListProps{Frame: frame("Gateways", "/gateways", good), Live: views.GatewaysLiveProps{Now: noon, Poll: "/live/gateways", Known: true, Summary: "no gateway is running", AllURL: "/gateways", OnlyURL: "/gateways?differs=1"}, Loss: loss}),
	}
}
