package web

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// recent is the range of "refused most" and "limits that refuse".
const recent = 15 * time.Minute

// mostRefused bounds the tenants and limits that the overview lists.
const mostRefused = 5

func (s *Server) overview(w http.ResponseWriter, r *http.Request) error {
	live, err := s.overviewProps(r)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.Overview(views.OverviewProps{Frame: s.titled(r, "Overview"), Live: live}))
}

func (s *Server) overviewLive(w http.ResponseWriter, r *http.Request) error {
	live, err := s.overviewProps(r)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.OverviewLive(live))
}

func (s *Server) overviewProps(r *http.Request) (views.OverviewLiveProps, error) {
	ctx, now := r.Context(), s.Now()
	f, err := s.inForce(ctx)
	if err != nil {
		return views.OverviewLiveProps{}, err
	}
	h := s.Fleet.Health(ctx)
	sp := s.knownSpan(now)
	p := views.OverviewLiveProps{Now: now, Range: "last " + sp.label, LiveKnown: s.liveKnown(now), LiveAge: s.liveAge(now),
		Stats: s.overviewStats(now, sp, h, f), AuditLink: can(r, console.PermViewAudit)}
	if p.Tenants, err = s.refusedMost(ctx, now, f); err != nil {
		return p, err
	}
	p.Hazards, p.HazardsAge = hazardRows(now, h)
	p.Limits = limitsThatRefuse(now, s.Activity.Live().TopLimits(now.Add(-recent), mostRefused), f)
	if p.AuditLink {
		if p.Changes, err = s.lastChanges(ctx, now); err != nil {
			return p, err
		}
	}
	look := s.look(ctx)
	p.Coming, p.ComingUnknown, p.ComingAge = look.coming, look.problem, "next 14 days, PostgreSQL · read "+ui.Ago(now, look.at)
	p.Stats[1].Note = look.week + " a week ago"
	p.Checklist, err = s.checklist(ctx, h, f)
	return p, err
}

// overviewStats are the headline numbers with their lines over a range.
func (s *Server) overviewStats(now time.Time, sp span, h console.Health, f inForce) []ui.StatProps {
	from, to := sp.window(now)
	x := s.series(s.totals(), from, to, sp.step)
	line := func(p ui.StatProps, values []float64) ui.StatProps {
		p.Values, p.From, p.Step, p.Markers = values, x.from, x.step, f.Markers
		return p
	}
	samples := s.Fleet.History()
	health := func(p ui.StatProps, of func(console.Sample) float64) ui.StatProps {
		p.Markers = f.Markers
		return healthLine(p, samples, from, to, sp.step, of)
	}
	m := lastMinute(now, s.totals())
	decisions, share, down, downTone := ui.Unknown, ui.Unknown, ui.Unknown, ""
	unsure := lastMinute(now, s.Activity.Live().DegradedAdmissions)
	if s.liveKnown(now) {
		decisions, share = ui.Num(m.rate(decided(m.Point))), ui.Percent(percentOf(m.Refused, decided(m.Point)))
		down = ui.Num(m.rate(unsure.Degraded))
	}
	if unsure.Degraded > 0 && s.liveKnown(now) {
		downTone = "bad"
	}
	return []ui.StatProps{
		line(ui.StatProps{Label: "Decisions", Note: "last minute", Value: decisions, Unit: "/s"}, x.perSecond(decided)),
		line(ui.StatProps{Label: "Refused", Note: "of decisions, last minute", Value: share}, x.values(refusedShare)),
		line(ui.StatProps{Label: "Degraded", Note: "admitted without Redis", Value: down, Unit: "/s", Tone: downTone},
			s.series(s.Activity.Live().DegradedAdmissions, from, to, sp.step).perSecond(degraded)),
		s.decisionTime(from, to, f),
		health(redisStat(now, h), roundTrip),
	}
}

// decisionTime is how long all but one in a hundred decisions took at most.
func (s *Server) decisionTime(from, to time.Time, f inForce) ui.StatProps {
	live := s.Activity.Live()
	p := ui.StatProps{Label: "Decision p99", Note: "upstream not counted", Value: ui.Unknown, From: from, Step: time.Minute, Markers: f.Markers}
	if t := live.DecisionTime(); live.DetailKnown() && t.Decisions > 0 {
		p.Value = withinText(t.P99)
	} else if live.DetailKnown() {
		p.Value = "–"
	}
	bounds := usage.TimeBounds()
	for i, m := range live.DecisionTimes(from, to) {
		if i == 0 {
			p.From = m.At
		}
		v := math.NaN()
		if m.Decisions > 0 {
			v = float64(min(m.P99, bounds[len(bounds)-1])) / float64(time.Millisecond)
		}
		p.Values = append(p.Values, v)
	}
	return p
}

// newSince marks what began to be refused after the last publication of the hour.
func newSince(now, since time.Time, f inForce) string {
	if f.Version > 1 && now.Sub(f.Published) < time.Hour && !since.Before(f.Published) {
		return "new since " + f.label()
	}
	return ""
}

func (s *Server) refusedMost(ctx context.Context, now time.Time, f inForce) ([]views.RefusedTenant, error) {
	top := s.Activity.Live().TopRefused(now.Add(-recent), mostRefused)
	ids := make([]string, 0, len(top))
	for _, t := range top {
		ids = append(ids, t.Tenant)
	}
	names, err := s.Activity.Names(ctx, ids)
	if err != nil {
		return nil, err
	}
	var rows []views.RefusedTenant
	for _, t := range top {
		row := views.RefusedTenant{Name: t.Tenant, Limit: firstOf(t.Limit, "(without Redis)"), Refused: ui.Int(t.Refused),
			Share: ui.Percent(percentOf(t.Refused, t.Requests)), Since: t.Since}
		switch name, ok := names[t.Tenant]; {
		case ok:
			row.Name, row.URL, row.ExplainURL = name, ui.TenantURL(t.Tenant, ""), ui.ExplainTenantURL(t.Tenant)
		case t.Tenant == usage.Rest:
			row.Name = "all others together"
		}
		row.NewSince = newSince(now, t.Since, f)
		rows = append(rows, row)
	}
	return rows, nil
}

// limitsThatRefuse adds what the policy says of each limit to its refusals.
func limitsThatRefuse(now time.Time, top []usage.LimitRefusals, f inForce) []views.RefusedLimit {
	rates, modes := limitFacts(f.Compiled)
	var rows []views.RefusedLimit
	for _, l := range top {
		row := views.RefusedLimit{ID: l.Limit, IfDown: "–", Rate: rates[l.Limit], Refused: ui.Int(l.Refused), NewSince: newSince(now, l.Since, f)}
		if row.ID == "" {
			row.ID = "(without Redis)"
		} else {
			row.URL = ui.LockoutsURL(url.Values{"limit": {row.ID}}.Encode())
		}
		if m, ok := modes[l.Limit]; ok {
			row.IfDown = m
		}
		rows = append(rows, row)
	}
	return rows
}

// limitFacts are rate (or amount, or places) and fail mode of each limit by its id. A plan's limit has
// one id over all plans, so its rate is told only when all plans agree.
func limitFacts(c *policy.Compiled) (rates, modes map[string]string) {
	rates, modes = map[string]string{}, map[string]string{}
	if c == nil {
		return rates, modes
	}
	tell := func(id, rate string) {
		if old, ok := rates[id]; ok && old != rate {
			rate = "per plan"
		}
		rates[id] = rate
	}
	note := func(l policy.CompiledLimit) { tell(l.ID, l.Rate.String()) }
	for _, l := range c.Global {
		note(l)
	}
	for _, q := range c.Quotas {
		tell(q.ID, amountText(q.Quota))
	}
	for _, limits := range c.Plans {
		for _, l := range limits {
			note(l)
		}
	}
	for _, rt := range c.Routes {
		if p := rt.Concurrency; p != nil {
			rates[p.ID], modes[p.ID] = ui.Int(p.Max)+" at once", string(rt.Route.OnStoreFailure.Mode)
		}
		for _, l := range rt.Limits {
			note(l)
			if strings.HasPrefix(l.ID, "route:") {
				modes[l.ID] = string(rt.Route.OnStoreFailure.Mode)
			}
		}
	}
	return rates, modes
}

// checklist is what a fresh installation still needs; nil once all is done.
func (s *Server) checklist(ctx context.Context, h console.Health, f inForce) ([]views.Step, error) {
	asked := false
	if at, ok := s.Activity.Live().AsOf(); ok {
		t := sum(s.Activity.Live().Totals(at.Add(-time.Hour), at.Add(time.Second), time.Minute))
		asked = t.Admitted > 0
	}
	if asked && f.Version > 0 {
		return nil, nil
	}
	tenants, err := s.Tenants.Count(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := s.Keys.Count(ctx)
	if err != nil {
		return nil, err
	}
	if f.Version > 0 && tenants > 0 && keys > 0 && h.DecisionsPerS > 0 {
		return nil, nil
	}
	return []views.Step{
		{Done: f.Version > 0, Label: "Publish a policy.", Hint: "Plans, routes, limits and what happens when Redis is away.", URL: ui.DraftsURL(), Action: "Go to drafts"},
		{Done: tenants > 0, Label: "Make a tenant.", Hint: "A customer: limits, keys and usage belong to it.", URL: ui.TenantNewURL(), Action: "New tenant"},
		{Done: keys > 0, Label: "Issue a key.", Hint: "On the tenant's page; it is shown once.", URL: ui.TenantsURL(), Action: "Go to tenants"},
		{Done: h.FleetKnown && h.Of > 0, Unknown: !h.FleetKnown, Label: "Start a gateway.", Hint: "“headgate gateway” with the same Redis and the console's public key.", URL: ui.GatewaysURL(), Action: "Go to gateways"},
		{Done: asked, Unknown: !asked && !h.FleetKnown, Label: "Send a first request.", Hint: "With the key, to the gateway's address."},
	}, nil
}
