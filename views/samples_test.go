package views_test

import (
	"math"
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// hostile is text that would do something if it were not written as text.
const hostile = `"><img src=x onerror=window.__xss=1><script>window.__xss=1</script>'{{1}}&amp;javascript:alert(1)`

func at(s string) time.Time {
	t, err := time.Parse("15:04:05", s)
	if err != nil {
		panic(err)
	}
	return time.Date(2026, 11, 30, t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

var noon = at("12:00:00")

func goodFacts() ui.Facts {
	return ui.Facts{Now: noon, PolicyVersion: 42, InSync: 3, Replicas: 3, ReplicasKnown: true, RedisKnown: true, RedisUp: true,
		RedisRTT: 420 * time.Microsecond, RedisSince: at("09:00:00"), LiveKnown: true, RefusedPercent: 3.4, Drafts: 2}
}

func badFacts() ui.Facts {
	f := goodFacts()
	f.RedisUp, f.RedisSince, f.ReplicasKnown, f.LiveKnown = false, at("10:41:07"), false, false
	return f
}

func frame(title, path string, f ui.Facts) ui.FrameProps {
	return ui.FrameProps{Title: title, Environment: "production", Path: path, Operator: "ops@example.com", Role: "owner", Facts: f}
}

func wave(n int, base, swing float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = max(0, base+swing*math.Sin(float64(i)/9)+swing*0.3*math.Sin(float64(i)*1.7))
	}
	for i := range n / 12 {
		out[n/3+i] = math.NaN()
	}
	return out
}

func markers() []ui.Marker { return []ui.Marker{{At: at("11:40:00"), Label: "v42"}} }

func stats() []ui.StatProps {
	one := func(p ui.StatProps, v []float64) ui.StatProps {
		p.Values, p.From, p.Step, p.Markers = v, at("11:00:00"), 30*time.Second, markers()
		return p
	}
	return []ui.StatProps{
		one(ui.StatProps{Label: "Decisions", Note: "last minute", Value: ui.Num(18420), Unit: "/s"}, wave(120, 100, 20)),
		one(ui.StatProps{Label: "Refused", Note: "by limits, last minute", Value: "3.4 %"}, wave(120, 3, 2)),
		one(ui.StatProps{Label: "Degraded", Note: "decided without Redis", Value: "19", Unit: "/s", Tone: "bad"}, wave(120, 1, 8)),
		one(ui.StatProps{Label: "Decision p99", Note: "Redis included, upstream not; last minute", Value: "≤ 2.50 ms"}, wave(60, 2, 1)),
		{Label: "Redis round trip", Note: "from the console, now", Value: "0.42 ms"},
	}
}

func overview(name string) views.OverviewLiveProps {
	return views.OverviewLiveProps{Now: noon, Range: "last hour", LiveKnown: true, LiveAge: "live, not the record · 2 s ago", Stats: stats(), AuditLink: true,
		Tenants: []views.RefusedTenant{
			{Name: name, URL: ui.TenantURL("ten_northwind", ""), Plan: "pro", Limit: "route:report.reports", Refused: "412", Share: "38 %", Since: at("11:41:00"), NewSince: "new since v42", ExplainURL: ui.ExplainTenantURL("ten_northwind")},
			{Name: "Tern & Sons", URL: ui.TenantURL("ten_tern", ""), Plan: "free", Limit: "plan.requests", Refused: "41", Share: "61 %", Since: at("08:12:00")}},
		Limits: []views.RefusedLimit{{ID: "route:report.reports", IfDown: "open", Refused: "412", Rate: "100/minute", NewSince: "new since v42", URL: ui.LockoutsURL("limit=route:report.reports")}, {ID: "plan.requests", IfDown: "–", Refused: "96", Rate: "per plan"}},
		Changes: []views.ChangeRow{{At: at("11:40:00"), Actor: "ops@example.com", Text: "Policy published", Object: "v42", Detail: "route:report.reports 200/minute → 100/minute (and 2 more)", URL: ui.VersionURL(42), Reason: name},
			{At: at("09:12:00"), Actor: "keys@example.com", Text: "Rotation started", Object: hostile, Detail: hostile, URL: ui.RotationURL("rot_1", "")}},
		ComingAge: "next 14 days, PostgreSQL · read 4 s ago",
		Coming: []views.ComingRow{{When: "overdue", Tone: "bad", Text: "Rotation", Object: name, URL: ui.RotationURL("rot_1", ""), Note: "the old key is refused in 5 h"},
			{At: noon.Add(7 * time.Hour), Text: "Override ends", Object: "plan.requests of " + name, URL: ui.OverrideURL("ovr_1", ""), Note: "9 000/minute, then 5 000/minute"},
			{At: noon.Add(72 * time.Hour), Text: "Quota runs out", Object: name, URL: ui.TenantURL("ten_a", ""), Note: "forecast, not before 3 Dec in nine of ten futures", Bar: &ui.QuotaBar{Known: true, Percent: 83, Text: "830 of 1 000"}}},
		HazardsAge: "looked at 4 s ago", Hazards: []views.HazardRow{{Tone: "bad", Label: "red", Server: "10.20.30.40:6379", Text: "maxmemory-policy is allkeys-lru: under memory pressure Redis drops counters, and whoever's counter is dropped gets a fresh budget. " + hostile, Mend: "Set maxmemory-policy noeviction."}},
	}
}

func usageLive(details bool) views.UsageLiveProps {
	p := views.UsageLiveProps{Now: noon, Poll: ui.TenantLiveURL("ten_a", "range=15m"), Age: "live, not the record · 2 s ago", Details: details,
		Now1m:  stats()[:4],
		Ranges: []ui.Tab{{Label: "5 minutes", URL: "?range=5m"}, {Label: "15 minutes", URL: "?range=15m", Current: true}, {Label: "1 hour", URL: "?range=1h"}},
		Chart: ui.ChartProps{ID: "usage-chart", Title: "Requests", Unit: "requests/s", From: at("11:30:00"), Step: 10 * time.Second, Markers: markers(),
			Series: []ui.Series{{Name: "admitted", Values: wave(180, 60, 20)}, {Name: "refused", Tone: "bad", Values: wave(180, 8, 12)}, {Name: "without Redis", Tone: "warn", Values: make([]float64, 180)}}},
	}
	if details {
		p.Routes = []views.UsageRoute{{Route: "report", Admitted: "1 200", Refused: "412", Degraded: "0", Invalid: "3", Cost: "24 000"}, {Route: hostile, Admitted: "1", Refused: "0", Degraded: "0", Invalid: "0", Cost: "1"}}
		p.Limits = []views.UsageLimit{{ID: "route:report.reports", Refused: "412"}}
	}
	return p
}

func head(tab, state, name string, f ui.Facts) views.TenantHeadProps {
	return views.TenantHeadProps{Frame: frame(name, "/tenants/ten_a", f), Now: noon, ID: "ten_aaaabbbbccccdddd", Name: name, ExternalID: "crm-1042", Plan: "pro", TimeZone: "Europe/Berlin",
		State: state, StateReason: "Unpaid.", Created: at("08:00:00"), Tab: tab, CanManage: true, CanManageKey: true, CanAudit: true, CanViewAs: true, CanBoost: true, Contacts: []string{hostile},
		StateEffect: "Every request with any of its keys is answered 403 on every gateway within a second. It sent 812 requests in the last minute."}
}

func keys(name string) []views.KeyRow {
	return []views.KeyRow{
		{KID: "0123456789AB", Masked: "hg_live_0123456789AB_…", Credential: name, Tenant: "Acme Analytics", TenantURL: ui.TenantURL("ten_a", "keys"), Environment: "live", State: "active", Created: at("11:00:00"), CanRevoke: true, CanSuspend: true, Scopes: hostile,
			Use: views.KeyUseCell{First: at("11:00:00"), Last: at("11:57:00"), Source: "192.0.2.0/24 · " + hostile, Requests: "1 204", Refused: "7", RefusedAt: at("11:58:00"), Behind: true}},
		{KID: "ZZ23456789AB", Masked: "hg_live_ZZ23456789AB_…", Credential: name, Tenant: "Acme Analytics", TenantURL: ui.TenantURL("ten_a", "keys"), Environment: "live", State: "retiring", Created: at("08:00:00"), NotAfter: noon.Add(7 * 24 * time.Hour), CanRevoke: true, RotationURL: "/rotations/rot_1", Use: views.KeyUseCell{Word: "never", Requests: "0", Refused: "0"}},
		{KID: "AA23456789AB", Masked: "hg_live_AA23456789AB_…", Credential: name, Tenant: "Acme Analytics", TenantURL: ui.TenantURL("ten_a", "keys"), Environment: "live", State: "revoked", Created: at("07:00:00"), Ended: at("07:30:00"), RevokeReason: "leak"}}
}

func rotation(state string) views.RotationRow {
	return views.RotationRow{ID: "rot_1", URL: ui.RotationURL("rot_1", ""), Tenant: "Acme Analytics", TenantURL: ui.TenantURL("ten_a", "keys"), Credential: "backend",
		OldKID: "ZZ23456789AB", NewKID: "0123456789AB", State: state, Reason: hostile, Started: at("11:00:00"), Ends: noon.Add(7 * 24 * time.Hour)}
}

func gateways(known bool) views.GatewaysLiveProps {
	p := views.GatewaysLiveProps{Now: noon, Poll: ui.GatewaysLiveURL(""), Known: known, Age: "heartbeats · 1 s ago", Summary: "2 of 3 enforce v42, 1 refuse it", Total: 3,
		AllURL: ui.GatewaysURL(), OnlyURL: ui.GatewaysDiffersURL()}
	if !known {
		p.Summary, p.Unknown = "unknown", "Heartbeats travel through Redis, which has not answered since 10:41:07 UTC. The rows below are what was last heard."
	}
	for i, st := range []string{"in sync", "in sync", "nacked"} {
		g := views.GatewayRow{ID: "gw_aaaabbbbccccddd" + string(rune('1'+i)), Host: "node-" + string(rune('a'+i)), Zone: "b", Build: "v0.1.0", Version: "v42", Digest: "6d026683f4",
			FullDigest: "sha256:6d026683f474beec2b78f457e9407ba265c0e30bcfca88bcb98ec3e7118fa275", Status: st, Since: at("11:40:00"), Mode: "normal", Breaker: "closed",
			RTT: "0.42 ms", Offset: "+1 ms", Decisions: "6 140", Refused: "96", Fallback: "0", Age: "1 s ago"}
		if st == "nacked" {
			g.Version, g.NACK, g.NACKDetail = "v41", "v42 bad-signature", hostile
		}
		p.Rows = append(p.Rows, g)
	}
	return p
}

func filled(values map[string]string) *form.Form { return form.New(values) }

func failed() *form.Form {
	f := form.New(map[string]string{"name": hostile, "plan": "gone", "external_id": hostile, "time_zone": "Mars/Base", "environment": "live", "scopes": hostile, "expires_at": "x", "overlap": "24h", "reason": hostile, "token": "ABCDEFGHIJKLMNOPQRST"})
	f.Message = "Please correct the marked fields."
	for _, name := range []string{"name", "plan", "external_id", "time_zone", "environment", "scopes", "expires_at", "overlap", "reason"} {
		f.Fail(name, "This does not do: "+hostile)
	}
	return f
}
