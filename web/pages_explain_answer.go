package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// explainAnswer puts an explanation into the words of the page.
func (s *Server) explainAnswer(r *http.Request, e console.Explanation) *views.ExplainAnswer {
	a := &views.ExplainAnswer{Sentence: e.Sentence, Why: e.Why, Customer: e.Customer, Subject: e.Subject, Route: e.Route, Match: e.Match,
		FailMode: e.FailMode, Notes: e.Notes, Source: "Redis, live · " + ui.Absolute(e.At)}
	a.Kind, a.Word = outcomeState(e.Outcome)
	if e.Whose != "" {
		a.Whose = map[string]string{console.WhoseOurs: "ours", console.WhoseTheirs: "theirs"}[e.Whose]
	}
	if e.Answer == nil {
		a.Source = "PostgreSQL · counters unknown"
	}
	if t := e.Tenant; t != nil {
		a.Tenant, a.TenantURL, a.Plan = t.Name, ui.TenantURL(t.ID, ""), "plan "+t.Plan
	}
	if k := e.Key; k != nil {
		a.Key, a.KeyKind = k.Masked+" "+k.Standing, "bad"
		if k.Accepted {
			a.KeyKind = "ok"
		}
		if k.Known {
			a.KeyURL = ui.KeyURL(k.KID, "")
		}
	}
	a.Receipt = receiptProps(s.Now(), e.Receipt)
	for i := range e.Ladder {
		a.Rungs = append(a.Rungs, rungRow(&e.Ladder[i]))
	}
	for _, o := range e.Others {
		a.Others = append(a.Others, otherRoute(e, o))
	}
	a.Traffic, a.TrafficAge = explainTraffic(s.Now(), e)
	a.Gateways = explainGateways(s.Now(), e)
	s.explainActs(r, e, a)
	return a
}

func outcomeState(o console.ExplainOutcome) (kind, word string) {
	switch o {
	case console.OutcomeRefused:
		return "bad", "refused"
	case console.OutcomeAtTimes:
		return "warn", "refused at times"
	case console.OutcomeAdmitted:
		return "ok", "admitted"
	}
	return "warn", ui.Unknown
}

// explainActs are the acts that the role may do.
func (s *Server) explainActs(r *http.Request, e console.Explanation, a *views.ExplainAnswer) {
	link := func(label, to, text string) { // the link's words are not said twice
		a.Links = append(a.Links, views.ExplainLink{Label: label, URL: to, Text: strings.TrimSpace(strings.TrimPrefix(text, label))})
	}
	for _, act := range e.Actions {
		switch {
		case act.Act == console.ActBoost && can(r, console.PermBoost):
			a.Boost = &views.BoostNow{Action: ui.TenantURL(act.TenantID, "boost"), Limit: act.Limit, Text: act.Text, Back: true}
			link("Boost otherwise", ui.TenantURL(act.TenantID, "boost")+"?limit="+act.Limit, "another factor or span")
		case act.Act == console.ActReset && can(r, console.PermUnlock):
			link("Reset the counter", ui.TenantStateURL(act.TenantID, ""), act.Text)
		case act.Act == console.ActUnlock && can(r, console.PermUnlock):
			link("Unlock", ui.LockoutsURL("limit="+url.QueryEscape(act.Limit)), act.Text)
		case act.Act == console.ActResume && act.TenantID != "" && can(r, console.PermManageTenants):
			link("Resume the tenant", ui.TenantURL(act.TenantID, ""), act.Text)
		case act.Act == console.ActResume && act.KID != "" && can(r, console.PermManageKeys):
			link("Resume the key", ui.KeyURL(act.KID, ""), act.Text)
		case act.Act == console.ActKey:
			link("The key", ui.KeyURL(act.KID, ""), act.Text)
		}
	}
}

// rungRow is a limit as it stands.
func rungRow(l *console.Rung) views.RungRow {
	row := views.RungRow{ID: l.ID, Per: "per " + l.Per, Text: l.Text, Used: ui.Unknown, Left: ui.Unknown, Reset: "–", Percent: -1, Deciding: l.Deciding,
		Missing: l.Missing, Steps: stepRows(l.Steps)}
	if l.Per == "" {
		row.Per = ""
	}
	row.Kind, row.Word = rungState(l)
	if !l.Known || l.Unlimited {
		if l.Unlimited {
			row.Used, row.Left = "not counted", "–"
		}
		return row
	}
	of := l.Limit
	if l.Kind == string(console.LimitRate) {
		of = l.Burst
	}
	row.Used, row.Of, row.Left = ui.Int(l.Used), ui.Int(of), ui.Int(l.Left)
	if of > 0 {
		row.Percent = int(min(l.Used*100/of, 100))
	}
	switch {
	case l.Wait > 0:
		row.Reset = ui.Span(l.Wait)
	case l.Next > 0:
		row.Reset = ui.Span(l.Next)
	}
	return row
}

func rungState(l *console.Rung) (kind, word string) {
	switch {
	case l.Unlimited:
		return "ok", "unlimited"
	case l.Shadow && l.Violated:
		return "warn", "shadow, would refuse"
	case l.Shadow:
		return "ok", "shadow"
	case l.Missing != "", !l.Known && !l.Blocked:
		return "warn", ui.Unknown
	case l.Deciding:
		return "bad", "refuses"
	case l.Violated, l.Blocked:
		return "bad", "refuses, too"
	case l.Overage:
		return "warn", "over, billed"
	case l.Overflow:
		return "warn", "shared with others"
	}
	return "ok", "has room"
}

func stepRows(steps []console.LimitStep) []views.LimitStepRow {
	var rows []views.LimitStepRow
	for _, st := range steps {
		rows = append(rows, views.LimitStepRow{Source: st.Source, Text: st.Text, Until: at(st.ExpiresAt), Reason: st.Reason, By: st.Author})
	}
	return rows
}

func otherRoute(e console.Explanation, o console.ProbeAnswer) views.OtherRoute {
	row := views.OtherRoute{Route: o.Route, Kind: "ok", Word: "admitted", Wait: "–"}
	if e.Tenant != nil {
		row.URL = ui.ExplainTenantURL(e.Tenant.ID) + "&route=" + o.Route
	}
	if !o.Allowed {
		row.Kind, row.Word = "bad", fmt.Sprintf("refused with %d", o.Status)
		if o.Deciding >= 0 && o.Deciding < len(o.Limits) {
			row.Word += " by " + o.Limits[o.Deciding].ID
		}
	}
	if o.RetryAfter > 0 {
		row.Wait = ui.Span(o.RetryAfter)
	}
	return row
}

// explainTraffic is what live counts say.
func explainTraffic(now time.Time, e console.Explanation) (rows []views.LabelledText, age string) {
	add := func(label, format string, args ...any) {
		rows = append(rows, views.LabelledText{Label: label, Text: fmt.Sprintf(format, args...)})
	}
	t := e.Traffic
	if !t.Known || e.Tenant == nil {
		add("Requests", "%s", ui.Unknown+": live counts are kept for tenants, and gateways have to report them")
		return append(rows, explainThen(t)...), ""
	}
	add("Last minute", "%s", shareSaid(t.LastMinute))
	add("Last hour", "%s", shareSaid(t.LastHour))
	if !t.LastRefused.IsZero() {
		add("Last refused", "%s (± 5 s)", ui.Ago(now, t.LastRefused))
	}
	for _, l := range t.ByLimit {
		add("Refused by "+l.Limit, "%s in the last hour", ui.Int(l.Refused))
	}
	for _, r := range t.ByRoute {
		add("Refused on "+routeWord(r.Route), "%s in the last hour", ui.Int(r.Refused))
	}
	return append(rows, explainThen(t)...), "live counts, as of " + ui.Ago(now, t.AsOf)
}

// explainThen is what is known of the moment that was asked about.
func explainThen(t console.ExplainTraffic) []views.LabelledText {
	if t.AskedAt == nil {
		return nil
	}
	then := ui.Unknown + ": live counts go back an hour"
	if t.Then != nil {
		then = shareSaid(*t.Then)
	}
	if t.ThenVersion != 0 {
		then += fmt.Sprintf(", under v%d", t.ThenVersion)
	}
	return []views.LabelledText{{Label: "In the minute of " + t.AskedAt.UTC().Format("15:04") + " UTC", Text: then}}
}

func shareSaid(s console.Share) string {
	return ui.Int(s.Requests) + " requests, " + ui.Int(s.Refused) + " refused"
}

func routeWord(name string) string {
	if name == "" {
		return "no route"
	}
	return name
}

// explainGateways is how gateways and policy stand.
func explainGateways(now time.Time, e console.Explanation) (rows []views.LabelledText) {
	add := func(label, text string) { rows = append(rows, views.LabelledText{Label: label, Text: text}) }
	g, v := e.Gateways, e.Version
	switch {
	case !g.Known:
		add("Gateways", ui.Unknown+": Redis, which carries heartbeats, is away")
	case g.Degraded > 0:
		add("Gateways", fmt.Sprintf("%d of %d decide without Redis: %s", g.Degraded, g.Of, strings.Join(g.Names, ", ")))
	default:
		add("Gateways", fmt.Sprintf("all %d decide by Redis; %d of them enforce v%d", g.Of, g.InSync, v.Head))
	}
	if g.Silent > 0 {
		add("Silent", fmt.Sprintf("%d gateways were not heard for some seconds", g.Silent))
	}
	redis := "answers"
	if !g.RedisUp {
		redis = "cannot be asked" + ui.SinceClock(g.RedisSince)
	}
	add("Redis", redis)
	if v.Head != 0 {
		add("Policy", fmt.Sprintf("v%d, published %s", v.Head, ui.Ago(now, v.Published)))
	}
	switch {
	case v.Related != 0:
		add("Related change", fmt.Sprintf("v%d, %s: %s", v.Related, ui.Ago(now, v.At), v.Change))
	case e.Outcome == console.OutcomeRefused && v.Head != 0:
		add("Related change", "none in the last 24 hours")
	}
	return rows
}

// receiptProps is what a receipt says.
func receiptProps(now time.Time, r *console.ExplainedReceipt) *views.ReceiptProps {
	if r == nil {
		return nil
	}
	p := &views.ReceiptProps{Kind: "bad", Word: "not valid", Problem: r.Problem}
	if !r.Valid {
		return p
	}
	said := &r.Said
	add := func(label, text string) { p.Facts = append(p.Facts, views.LabelledText{Label: label, Text: text}) }
	p.Kind, p.Word, p.Remark = "warn", "valid", "Its version is not here to recompute it."
	if r.Recomputed {
		p.Kind, p.Remark = "ok", "Recomputed under its version, it comes to the same verdict and numbers."
		if !r.Found.Agrees() {
			p.Kind, p.Remark = "bad", "It does not follow from its version: the replica enforced something else."
		}
	}
	add("Made", ui.Ago(now, said.At)+", "+said.At.Format("2006-01-02 15:04:05.000 UTC")+", by "+r.Host+" ("+r.Replica+")")
	add("Policy", fmt.Sprintf("v%d", said.Version))
	if r.Found.LimitID != "" {
		add("Limit", r.Found.LimitID+" ("+strings.Join(r.Found.Sources, ", ")+")")
	}
	if r.Found.Route != "" {
		add("Route", r.Found.Route)
	}
	add("Refused for", string(said.Reason))
	add("Cost", ui.Int(said.Cost))
	if r.Recomputed {
		add("Left then", ui.Int(r.Found.Remaining))
	}
	if said.WaitMicros > 0 {
		add("Told to wait", ui.Span(time.Duration(said.WaitMicros)*time.Microsecond))
	}
	p.Differs = r.Found.Differences
	return p
}
