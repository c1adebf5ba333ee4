package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// tryRange is how much of the log other numbers are tried on.
const tryRange = 24 * time.Hour

// longRange is how many days the ledger is asked about.
const longRange = 30

// advisorRoutes are limits from measurement.
func (s *Server) advisorRoutes(r chi.Router) {
	view := r.With(s.require(console.PermView))
	view.Get("/advisor", s.page(s.advisorPage))
	view.Get("/live/advisor", s.page(s.advisorLive))
	view.Get("/advisor/limit", s.page(s.advisorLimit))
	view.Get("/advisor/trials/{trial}", s.page(s.advisorTrial))
	view.Get("/live/advisor/trials/{trial}", s.page(s.advisorTrialLive))
	view.Get("/advisor/capacities/{capacity}", s.page(s.capacityPage))
	r.With(s.require(console.PermEditDrafts)).Post("/advisor/try", s.page(s.advisorTry))
}

func (s *Server) advisorPage(w http.ResponseWriter, r *http.Request) error {
	live, err := s.advisorProps(r.Context())
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.Advisor(views.AdvisorProps{Frame: s.titled(r, "Advisor"), Live: live}))
}

func (s *Server) advisorLive(w http.ResponseWriter, r *http.Request) error {
	live, err := s.advisorProps(r.Context())
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.AdvisorLive(live))
}

func (s *Server) advisorProps(ctx context.Context) (views.AdvisorLiveProps, error) {
	state := s.Advisor.State(ctx)
	p := views.AdvisorLiveProps{Now: s.Now(), Working: state.Working, Problem: state.Problem, Known: state.Report != nil}
	if r := state.Report; r != nil {
		p.Source, p.Notes = adviceSource(s.Now(), r), adviceNotes(r)
		for i := range r.Limits {
			p.Limits = append(p.Limits, adviceRow(&r.Limits[i]))
		}
	}
	promises, err := s.Advisor.Promises(ctx)
	switch {
	case console.CodeOf(err) == console.CodeConflict:
		p.Empty = publicText(err)
	case err != nil:
		return p, err
	case len(promises) == 0:
		p.Empty = "The policy in force has no routes."
	}
	for i := range promises {
		p.Promises = append(p.Promises, promiseRow(&promises[i]))
	}
	return p, nil
}

// adviceSource says what a report was made of, and when.
func adviceSource(now time.Time, r *console.AdvisorReport) string {
	return fmt.Sprintf("log of decisions, %s to %s UTC, made %s", r.From.UTC().Format("2 Jan 15:04"), r.To.UTC().Format("2 Jan 15:04"), ui.Ago(now, r.At))
}

// adviceNotes says how far a report can be believed.
func adviceNotes(r *console.AdvisorReport) []string {
	notes := []string{
		"Windows of the rate's period lie side by side; those in which a caller asked for nothing do not count. What other numbers would have refused is exact for the limit by itself, with other limits as they decided. A limit's own page tries a change with all of them.",
	}
	add := func(yes bool, format string, args ...any) {
		if yes {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	add(r.Share() < 1, "The log is a sample: %s of tenants and addresses are in it whole. Percentiles are of those; counts are not multiplied up, and limits on everybody together look emptier than they are.", ui.Percent(100*r.Share()))
	add(r.Dropped > 0, "Gateways could not log %s decisions of that time.", ui.Int(r.Dropped))
	add(r.Unplaced > 0, "%s decisions were of routes or tenants that are gone, and stand nowhere here.", ui.Int(r.Unplaced))
	add(r.Settled, "Costs that were settled later stand here as they were reserved.")
	return notes
}

func adviceRow(l *console.LimitAdvice) views.AdviceRow {
	row := views.AdviceRow{
		URL: ui.AdvisorLimitURL(l.ID, l.Plan), ID: l.ID, Plan: l.Plan, InForce: fmt.Sprintf("%s, burst %s", l.Rate, ui.Int(l.Burst)),
		Per: policy.Per(l.Per).Text(), Shadow: l.Shadow, P50: ui.Int(l.Asked.P50), P90: ui.Int(l.Asked.P90), P99: ui.Int(l.Asked.P99), Max: ui.Int(l.Asked.Max),
		Used: meterOf(l.UsedPercent()), UsedText: ui.Percent(l.UsedPercent()), Requests: ui.Int(l.Requests), Refused: ui.Int(l.Refused),
		Half: ui.Unknown, Twice: ui.Unknown,
	}
	var now int64
	for _, g := range l.Rungs {
		if g.FactorMilli == 1000 {
			now = g.Refused
		}
	}
	for _, g := range l.Rungs {
		switch g.FactorMilli {
		case 500:
			row.Half, row.HalfWorse = ui.Int(g.Refused), g.Refused > now
		case 2000:
			row.Twice, row.TwiceLess = ui.Int(g.Refused), g.Refused < now
		}
	}
	return row
}

func meterOf(percent float64) int { return int(math.Min(math.Round(percent), 999)) }

// perSecondMilli writes thousandths of a request a second.
func perSecondMilli(milli int64) string { return ui.Num(float64(milli)/1000) + "/s" }

func promiseRow(p *console.Promise) views.PromiseRow {
	row := views.PromiseRow{Route: p.Route, Pattern: p.Pattern, Tenants: ui.Int(p.Tenants), Promised: perSecondMilli(p.Milli), Why: p.Why,
		Use: ui.Unknown, Capacity: ui.Unknown}
	if p.Unlimited {
		row.Promised = "no bound"
	}
	if p.Identity != string(policy.IdentityAPIKey) {
		row.Tenants = "–"
	}
	if p.Use != nil {
		row.Use = ui.Int(p.Use.PerSec.P99) + "/s"
	}
	c := p.Capacity
	if c == nil {
		row.Command = "headgate knee --route " + p.Route + " --url …"
		return row
	}
	row.Capacity, row.CapacityURL, row.MeasuredAt, row.MeasuredBy, row.Stale = perSecondMilli(c.KneeMilli), ui.CapacityURL(c.ID), c.MeasuredAt, c.Author, c.Stale
	if c.AtLeast {
		row.Capacity = "≥ " + row.Capacity
	}
	if times := p.TimesMilli(); times > 0 {
		row.Times, row.TimesTone = ui.Num(float64(times)/1000)+" ×", "ok"
		if times > 1000 && !c.AtLeast {
			row.TimesTone = "warn"
		}
	} else if p.Unlimited {
		row.Times, row.TimesTone = "more is promised than anything takes", "warn"
	}
	return row
}

// advisorLimit is the page of one limit.
func (s *Server) advisorLimit(w http.ResponseWriter, r *http.Request) error {
	return s.renderAdvisorLimit(w, r, http.StatusOK, r.URL.Query().Get("id"), r.URL.Query().Get("plan"), form.New(nil))
}

func (s *Server) renderAdvisorLimit(w http.ResponseWriter, r *http.Request, status int, id, plan string, f *form.Form) error {
	state := s.Advisor.State(r.Context())
	if state.Report == nil {
		return &console.Error{Code: console.CodeNotFound, Public: "There is no report on the use of limits yet. Open the advisor, and wait some seconds."}
	}
	l, ok := state.Report.Limit(id, plan)
	if !ok {
		return &console.Error{Code: console.CodeNotFound, Public: "The report says nothing of a limit with this id."}
	}
	p := views.AdvisorLimitProps{Frame: s.titled(r, l.ID), Now: s.Now(), Row: adviceRow(l), Source: adviceSource(s.Now(), state.Report), Window: policy.DurationText(l.Window),
		Notes: adviceNotes(state.Report), Stats: adviceStats(l), Form: f, CanTry: can(r, console.PermEditDrafts)}
	for _, g := range l.Rungs {
		p.Rungs = append(p.Rungs, views.AdviceRungRow{Factor: "× " + console.FactorText(g.FactorMilli), Numbers: fmt.Sprintf("%s, burst %s", g.Rate, ui.Int(g.Burst)),
			Refused: ui.Int(g.Refused), Share: ui.Percent(percentOf(g.Refused, l.Requests)), Subjects: ui.Int(g.Subjects), Current: g.FactorMilli == 1000})
	}
	for _, u := range l.Tenants {
		p.Tenants = append(p.Tenants, tenantUseRow(u))
	}
	if l.Per == string(policy.PerTenant) {
		p.LongURL = p.Row.URL + "&long=1"
		if r.URL.Query().Get("long") != "" {
			p.LongURL, p.Long = "", s.longUse(r, l.ID, l.Plan)
		}
	}
	return s.render(w, r, status, views.AdvisorLimit(p))
}

// longUse is what the ledger says of a limit over days. Its troubles are told in its
// place: the rest of the page stands without it.
func (s *Server) longUse(r *http.Request, id, plan string) *views.LongUse {
	a, err := s.Advisor.Long(r.Context(), actor(r), s.Ledger, id, plan, longRange)
	if err != nil {
		if e, ok := errors.AsType[*console.Error](err); ok && len(e.Fields) > 0 {
			return &views.LongUse{Problem: e.Fields[0].Message}
		}
		s.Log.WarnContext(r.Context(), "long use of a limit", "request_id", requestID(r.Context()), "error", err)
		return &views.LongUse{Problem: publicText(err)}
	}
	through := ui.Unknown
	if !a.Through.IsZero() {
		through = a.Through.UTC().Format("2 Jan 15:04:05 UTC")
	}
	p := &views.LongUse{Source: fmt.Sprintf("ledger, sums of hours, %s to %s UTC, complete through %s", a.From.UTC().Format("2 Jan"), a.To.UTC().Format("2 Jan 15:04"), through)}
	p.Note = "By hours in which a tenant asked for anything. Refused requests count one token each: the ledger does not know their cost."
	if !a.Exact {
		p.Note += " The limit's own window is another one than an hour, and an hour hides what went on within it: the fullest window had at least the hour's mean, and how much more is not known."
	}
	if a.LeftOut > 0 {
		p.Note += fmt.Sprintf(" %s tenants with the fewest requests are left out.", ui.Int(int64(a.LeftOut)))
	}
	for _, u := range a.Tenants[:min(len(a.Tenants), 50)] {
		row := tenantUseRow(u)
		row.Refused = "–"
		p.Tenants = append(p.Tenants, row)
	}
	return p
}

func adviceStats(l *console.LimitAdvice) []ui.StatProps {
	window := "tokens in " + policy.DurationText(l.Window)
	return []ui.StatProps{
		{Label: "Half of the windows", Value: ui.Int(l.Asked.P50), Note: window + ", at most (p50)"},
		{Label: "Nine in ten", Value: ui.Int(l.Asked.P90), Note: window + ", at most (p90)"},
		{Label: "All but one in a hundred", Value: ui.Int(l.Asked.P99), Note: window + ", at most (p99)"},
		{Label: "The fullest", Value: ui.Int(l.Asked.Max), Note: ui.Int(l.Asked.Windows) + " windows, " + ui.Int(l.Subjects) + " who asked"},
		{Label: "Head-room", Value: ui.Percent(100 - l.UsedPercent()), Note: "above the p99; a burst comes on top"},
	}
}

func tenantUseRow(u console.TenantUse) views.TenantUseRow {
	row := views.TenantUseRow{Name: u.Name, URL: ui.TenantURL(u.Tenant, ""), P50: ui.Int(u.Asked.P50), P90: ui.Int(u.Asked.P90), P99: ui.Int(u.Asked.P99), Max: ui.Int(u.Asked.Max),
		Allowed: ui.Int(u.Allowed), Own: u.Own, Used: meterOf(u.UsedPercent()), UsedText: ui.Percent(u.UsedPercent()), Refused: ui.Int(u.Refused)}
	if row.Name == "" {
		row.Name = u.Tenant
	}
	return row
}

// advisorTry starts a trial of other numbers.
func (s *Server) advisorTry(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "limit", "plan", "rate", "burst")
	in := console.WhatIf{Limit: f.Get("limit"), Plan: f.Get("plan"), Rate: f.Get("rate"), From: s.Now().Add(-tryRange), To: s.Now()}
	if burst := f.Get("burst"); burst != "" {
		n, err := strconv.ParseInt(burst, 10, 64)
		if err != nil {
			f.Fail("burst", "Must be a whole number.")
		}
		in.Burst = n
	}
	if !f.OK() {
		return s.renderAdvisorLimit(w, r, http.StatusUnprocessableEntity, in.Limit, in.Plan, f)
	}
	t, err := s.Advisor.Try(r.Context(), actor(r), in)
	if status := s.take(f, err); status != 0 {
		return s.renderAdvisorLimit(w, r, status, in.Limit, in.Plan, f)
	}
	if err != nil {
		return err
	}
	return s.redirect(w, r, ui.AdvisorTrialURL(t.ID), "")
}

func (s *Server) advisorTrial(w http.ResponseWriter, r *http.Request) error {
	p, err := s.advisorTrialProps(r)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.AdvisorTrial(views.AdvisorTrialProps{Frame: s.titled(r, "Other numbers, tried"), Trial: p}))
}

func (s *Server) advisorTrialLive(w http.ResponseWriter, r *http.Request) error {
	p, err := s.advisorTrialProps(r)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.Trial(p))
}

func (s *Server) advisorTrialProps(r *http.Request) (views.TrialProps, error) {
	t, err := s.Policies.Trial(r.Context(), chi.URLParam(r, "trial"))
	if err != nil {
		return views.TrialProps{}, err
	}
	if t.Draft != "" {
		return views.TrialProps{}, &console.Error{Code: console.CodeNotFound, Public: "This simulation is of a draft. Open it there."}
	}
	p, err := s.trialProps(r, t, console.Draft{})
	p.Poll, p.Outdated = ui.AdvisorTrialLiveURL(t.ID), false
	return p, err
}

// capacityPage is one measurement with its steps.
func (s *Server) capacityPage(w http.ResponseWriter, r *http.Request) error {
	c, err := s.Capacities.Get(r.Context(), chi.URLParam(r, "capacity"))
	if err != nil {
		return err
	}
	known, err := s.Capacities.Known(r.Context())
	if err != nil {
		return err
	}
	p := views.CapacityProps{Frame: s.titled(r, "Capacity of "+c.Route), Now: s.Now(), Route: c.Route, Method: "Method: " + c.Method + ".", Tone: "ok", Ended: c.Ended + ": " + c.Why}
	if c.Ended != "knee" && c.Ended != "max-rps" {
		p.Tone = "warn"
	}
	add := func(name, value string) { p.Facts = append(p.Facts, views.CapacityFact{Name: name, Value: value}) }
	add("Takes", perSecondMilli(c.KneeMilli))
	if c.BeyondMilli > 0 {
		add("Does not take", perSecondMilli(c.BeyondMilli))
	}
	add("p99 at the knee", c.P99.String())
	add("p99 below it", c.Plateau.String())
	add("Target", c.Target)
	add("Policy then", "v"+strconv.FormatInt(c.Version, 10))
	add("Measured", c.MeasuredAt.UTC().Format(time.RFC3339)+" by "+c.Author)
	if c.Note != "" {
		add("Note", c.Note)
	}
	switch now := known[c.Route]; {
	case now.ID != c.ID:
		add("Stands", "replaced by a later measurement")
	case now.Stale != "":
		add("Stands", "stale: "+now.Stale)
	default:
		add("Stands", "fresh")
	}
	for _, st := range c.Steps {
		p.Steps = append(p.Steps, views.CapacityStepRow{RPS: ui.Num(float64(st.RPSMilli) / 1000), Sent: ui.Int(st.Sent), Failed: ui.Int(st.Failed),
			P50: micros(st.P50US), P99: micros(st.P99US), Good: st.Good, Why: st.Why})
	}
	return s.render(w, r, http.StatusOK, views.CapacityPage(p))
}

func micros(us int64) string {
	return (time.Duration(us) * time.Microsecond).Round(10 * time.Microsecond).String()
}
