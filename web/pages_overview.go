package web

import (
	"context"
	"net/http"
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
	p := views.OverviewLiveProps{Now: now, Range: "last " + sp.label, LiveAge: s.liveAge(now),
		Stats: s.overviewStats(now, sp, h, f), AuditLink: can(r, console.PermViewAudit)}
	if p.Tenants, err = s.refusedMost(ctx, now, f); err != nil {
		return p, err
	}
	p.Hazards, p.HazardsAge = hazardRows(now, h)
	p.Limits = limitsThatRefuse(s.Activity.Live().TopLimits(now.Add(-recent), 8), f)
	if p.AuditLink {
		if p.Changes, err = s.lastChanges(ctx, now); err != nil {
			return p, err
		}
	}
	if p.Checklist, err = s.checklist(ctx, h, f); err != nil || p.Checklist != nil {
		return p, err
	}
	week, running := s.look(ctx, actor(r))
	p.Quotas = running
	p.Stats[1].Note += " · " + week + " in this hour a week ago"
	return p, nil
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
	if s.liveKnown(now) {
		decisions, share = ui.Num(m.rate(decided(m.Point))), ui.Percent(percentOf(m.Refused, decided(m.Point)))
		down = ui.Num(m.rate(m.Degraded))
	}
	if m.Degraded > 0 && s.liveKnown(now) {
		downTone = "bad"
	}
	return []ui.StatProps{
		line(ui.StatProps{Label: "Decisions", Note: "last minute", Value: decisions, Unit: "/s"}, x.perSecond(decided)),
		line(ui.StatProps{Label: "Refused", Note: "of decisions, last minute", Value: share}, x.values(refusedShare)),
		line(ui.StatProps{Label: "Degraded", Note: "decided without Redis", Value: down, Unit: "/s", Tone: downTone}, x.perSecond(degraded)),
		health(redisStat(now, h), roundTrip),
		health(syncStat(now, h), inSync),
	}
}

func (s *Server) refusedMost(ctx context.Context, now time.Time, f inForce) ([]views.RefusedTenant, error) {
	top := s.Activity.Live().TopRefused(now.Add(-recent), 8)
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
			row.Name, row.URL = name, ui.TenantURL(t.Tenant, "")
		case t.Tenant == usage.Rest:
			row.Name = "all others together"
		}
		if f.Version > 1 && now.Sub(f.Published) < time.Hour && !t.Since.Before(f.Published) {
			row.NewSince = "new since " + f.label()
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// limitsThatRefuse adds what the policy says of each limit to its refusals.
func limitsThatRefuse(top []usage.LimitRefusals, f inForce) []views.RefusedLimit {
	rates, modes := limitFacts(f.Compiled)
	var rows []views.RefusedLimit
	for _, l := range top {
		row := views.RefusedLimit{ID: l.Limit, IfDown: "–", Rate: rates[l.Limit], Refused: ui.Int(l.Refused)}
		if row.ID == "" {
			row.ID = "(without Redis)"
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
