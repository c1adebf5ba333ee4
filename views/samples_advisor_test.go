package views_test

import (
	"time"

	"github.com/a-h/templ"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// advisorPages is limits from measurement.
func advisorPages() map[string]templ.Component {
	good, bad := goodFacts(), badFacts()
	row := views.AdviceRow{URL: ui.AdvisorLimitURL("plan.requests", "pro"), ID: "plan.requests", Plan: "pro", InForce: "600/minute, burst 100", Per: "tenant", Shadow: true,
		P50: "40", P90: "310", P99: "640", Max: "1 020", Used: 107, UsedText: "107 %", Requests: "812 400", Refused: "3 100", Half: "44 000", Twice: "0", HalfWorse: true, TwiceLess: true}
	odd := row
	odd.ID, odd.Plan, odd.InForce, odd.URL = hostile, hostile, hostile, ui.AdvisorLimitURL(hostile, "")
	promises := []views.PromiseRow{
		{Route: "search", Pattern: "POST /v1/search", Tenants: "212", Promised: "2 120/s", Use: "340/s", Capacity: "600/s", CapacityURL: ui.CapacityURL("cap_a"), MeasuredAt: noon.Add(-time.Hour), MeasuredBy: "Kim", Times: "3.5 ×", TimesTone: "warn"},
		{Route: hostile, Pattern: hostile, Tenants: "–", Promised: "no bound", Why: "callers are known by their ip, and nobody knows how many there are", Use: ui.Unknown, Capacity: ui.Unknown, Command: "headgate knee --route " + hostile + " --url …"},
		{Route: "old", Pattern: "GET /", Tenants: "3", Promised: "3/s", Use: "1/s", Capacity: "≥ 10/s", CapacityURL: ui.CapacityURL("cap_b"), MeasuredAt: noon.Add(-2000 * time.Hour), MeasuredBy: hostile, Times: "0.3 ×", TimesTone: "ok", Stale: "it is older than 90 days"},
	}
	full := views.AdvisorLiveProps{Now: noon, Source: "log of decisions", Known: true, Notes: []string{"A sample.", hostile}, Limits: []views.AdviceRow{row, odd}, Promises: promises}
	working := views.AdvisorLiveProps{Now: noon, Working: true, Problem: hostile, Empty: "There is no policy in force yet."}
	uses := []views.TenantUseRow{{Name: "Acme", URL: ui.TenantURL("ten_a", ""), P50: "1", P90: "2", P99: "3", Max: "4", Allowed: "600", Own: true, Used: 1, UsedText: "0.5 %", Refused: "0"},
		{Name: hostile, URL: ui.TenantURL("ten_b", ""), P50: "1", P90: "2", P99: "3", Max: "4", Allowed: "600", Used: 250, UsedText: "250 %", Refused: "9"}}
	broken := form.New(map[string]string{"rate": hostile})
	broken.Fail("rate", hostile)
	broken.Message = hostile
	limit := views.AdvisorLimitProps{Frame: frame("plan.requests", "/advisor", good), Now: noon, Row: row, Source: "log of decisions", Window: "1m", Notes: []string{"A sample."},
		Stats: []ui.StatProps{{Label: "Half of the windows", Value: "40", Note: "tokens in 1m"}}, Tenants: uses, Form: form.New(nil), CanTry: true,
		Rungs: []views.AdviceRungRow{{Factor: "× 0.5", Numbers: "300/minute, burst 50", Refused: "44 000", Share: "5 %", Subjects: "12"}, {Factor: "× 1", Numbers: "600/minute", Refused: "3 100", Share: "0.4 %", Subjects: "2", Current: true}},
		Long:  &views.LongUse{Source: "ledger", Note: "An hour's mean is the least.", Tenants: uses}}
	nothing := limit
	nothing.Row, nothing.Tenants, nothing.Form, nothing.Long = odd, nil, broken, &views.LongUse{Problem: hostile}
	capacity := views.CapacityProps{Frame: frame("Capacity", "/advisor", good), Now: noon, Route: hostile, Method: hostile, Ended: hostile, Tone: "warn",
		Facts: []views.CapacityFact{{Name: "Takes", Value: "600/s"}, {Name: "Target", Value: hostile}},
		Steps: []views.CapacityStepRow{{RPS: "600", Sent: "1 800", Failed: "0", P50: "10ms", P99: "12ms", Good: true}, {RPS: "630", Sent: "1 890", Failed: "3", P50: "10ms", P99: "90ms", Why: hostile}}}
	return map[string]templ.Component{
		"advisor-full":    views.Advisor(views.AdvisorProps{Frame: frame("Advisor", "/advisor", good), Live: full}),
		"advisor-working": views.Advisor(views.AdvisorProps{Frame: frame("Advisor", "/advisor", bad), Live: working}),
		"advisor-empty":   views.Advisor(views.AdvisorProps{Frame: frame("Advisor", "/advisor", good), Live: views.AdvisorLiveProps{Now: noon, Known: true, Source: "log", Empty: "none"}}),
		"advisor-limit":   views.AdvisorLimit(limit),
		"advisor-nothing": views.AdvisorLimit(nothing),
		"advisor-trial":   views.AdvisorTrial(views.AdvisorTrialProps{Frame: frame("Tried", "/advisor", good), Trial: views.TrialProps{Now: noon, Poll: ui.AdvisorTrialLiveURL("sim_a"), State: "running", Percent: 30, Author: hostile, At: noon}}),
		"capacity":        views.CapacityPage(capacity),
	}
}
