package views_test

import (
	"time"

	"github.com/a-h/templ"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// explainPages is why somebody is refused, and what the search suggests.
func explainPages() map[string]templ.Component {
	asked := form.New(map[string]string{"q": hostile, "route": "search", "ip": hostile, "at": "10:41"})
	bad := form.New(map[string]string{"q": hostile})
	bad.Fail("q", "There is no such tenant: "+hostile)
	routes := []ui.Option{{Value: "", Label: "all that may refuse"}, {Value: "search", Label: "search"}}
	answer := &views.ExplainAnswer{
		Kind: "bad", Word: "refused", Sentence: hostile + " is refused.", Whose: "theirs", Why: "They send more than they may.", Customer: "Dear " + hostile, Subject: hostile,
		Tenant: hostile, TenantURL: ui.TenantURL("ten_a", ""), Plan: "plan " + hostile, Key: hostile, KeyURL: ui.KeyURL("AAAAAAAAAAAA", ""), KeyKind: "ok", Route: hostile, Match: "POST /v1/" + hostile,
		FailMode: "closed", Source: "Redis, live", Notes: []string{hostile}, TrafficAge: "live counts, as of 2 s ago",
		Receipt: &views.ReceiptProps{Kind: "ok", Word: "valid", Remark: "Recomputed.", Facts: []views.LabelledText{{Label: "Limit", Text: hostile}}, Differs: []string{hostile}},
		Rungs: []views.RungRow{
			{ID: hostile, Per: "per tenant", Text: "60/minute", Used: "60", Of: "60", Left: "0", Reset: "18 s", Percent: 100, Kind: "bad", Word: "refuses", Deciding: true,
				Steps: []views.LimitStepRow{{Source: "plan pro", Text: "60/minute"}, {Source: "boost", Text: hostile, Until: noon.Add(time.Hour), Reason: hostile, By: hostile}}},
			{ID: "route:login.per-ip", Text: "5/minute", Used: ui.Unknown, Left: ui.Unknown, Reset: "–", Percent: -1, Kind: "warn", Word: ui.Unknown, Missing: "an address"},
		},
		Others:   []views.OtherRoute{{Route: hostile, URL: ui.ExplainTenantURL("ten_a"), Kind: "ok", Word: "admitted", Wait: "–"}, {Route: "x", Kind: "bad", Word: "refused with 429", Wait: "3 s"}},
		Traffic:  []views.LabelledText{{Label: "Last minute", Text: "12 requests"}},
		Gateways: []views.LabelledText{{Label: "Gateways", Text: hostile}},
		Boost:    &views.BoostNow{Action: ui.TenantURL("ten_a", "boost"), Limit: hostile, Text: hostile, Back: true},
		Links:    []views.ExplainLink{{Label: "The key", URL: ui.KeyURL("AAAAAAAAAAAA", ""), Text: hostile}},
	}
	unknown := &views.ExplainAnswer{Kind: "warn", Word: ui.Unknown, Sentence: "It is not known.", Subject: "Acme", Source: "PostgreSQL", Receipt: &views.ReceiptProps{Kind: "bad", Word: "not valid", Problem: "It was changed."}}
	return map[string]templ.Component{
		"explain":         views.Explain(views.ExplainProps{Frame: frame("Explain", "/explain", goodFacts()), Now: noon, Form: form.New(nil), Routes: routes}),
		"explain-refused": views.Explain(views.ExplainProps{Frame: frame("Explain", "/explain", goodFacts()), Now: noon, Form: asked, Routes: routes, Answer: answer}),
		"explain-unknown": views.Explain(views.ExplainProps{Frame: frame("Explain", "/explain", goodFacts()), Now: noon, Form: bad, Routes: routes, Answer: unknown}),
	}
}
