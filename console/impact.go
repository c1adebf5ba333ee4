package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

const (
	// demandKept is how long the last hour's demand is good for.
	demandKept = 5 * time.Second
	// toldRoutes is how many routes live counts tell apart.
	toldRoutes = 1000
	// knownEnough of the hour lets a day be guessed from it.
	knownEnough = time.Minute
)

// demand is what callers asked for in the last hour; known is zero when nobody
// can say.
type demand struct{ usage.Hour }

// demandCache keeps the last hour's demand for some seconds: adding it up takes
// milliseconds, and pages ask for it again and again.
type demandCache struct {
	mu   sync.Mutex
	at   time.Time
	hour demand
}

// demandNow is what callers asked for in the last hour.
func (s *Policies) demandNow() demand {
	if s.d.Traffic == nil {
		return demand{}
	}
	s.demand.mu.Lock()
	defer s.demand.mu.Unlock()
	if now := time.Now(); s.demand.at.IsZero() || now.Sub(s.demand.at) > demandKept {
		s.demand.at, s.demand.hour = now, demand{s.d.Traffic.LastHour()}
	}
	return s.demand.hour
}

func (d demand) source() string {
	return fmt.Sprintf("live counts of %d of the last 60 minutes, extrapolated", max(int64(d.Known.Minutes()), 1))
}

// perDay extrapolates what was counted; -1 when nothing is known.
func (d demand) perDay(requests int64) int64 {
	if d.Known < knownEnough {
		return -1
	}
	return int64(float64(requests) * float64(24*time.Hour) / float64(d.Known))
}

// plansOf is how many tenants are on each plan, and what they asked for.
type plansOf struct {
	tenants  map[string]int64
	requests map[string]int64
	peaks    map[string]usage.Demand // of the busiest tenant of each plan
}

// readPlans adds up demand by plan.
func readPlans(ctx context.Context, tx Tx, d demand) (out plansOf, err error) {
	out = plansOf{requests: map[string]int64{}, peaks: map[string]usage.Demand{}}
	if out.tenants, err = tx.CountByPlan(ctx); err != nil {
		return out, err
	}
	ids := make([]string, 0, len(d.Tenants))
	for id := range d.Tenants {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	plans, err := tx.PlansOf(ctx, ids)
	if err != nil {
		return out, err
	}
	for id, plan := range plans {
		of := d.Tenants[id]
		out.requests[plan] += of.Requests
		peak := out.peaks[plan]
		peak.PeakRequests, peak.PeakCost = max(peak.PeakRequests, of.PeakRequests), max(peak.PeakCost, of.PeakCost)
		out.peaks[plan] = peak
	}
	return out, nil
}

// rated are changes without impact.
func rated(in []policy.Change) []RatedChange {
	out := make([]RatedChange, len(in))
	for i, c := range in {
		out[i].Change = c
	}
	return out
}

// rate says whom changes concern, as of now, and puts the riskiest first.
func rate(changes []policy.Change, before, after *policy.Document, plans plansOf, d demand) []RatedChange {
	out := rated(changes)
	facts := ruleFacts{changes: out, before: before, after: after}
	uses := usersOf(before, after)
	renamed := renamedRoutes(changes)
	for i := range out {
		out[i].Impact = facts.impact(out[i], plans, uses, renamed, d)
	}
	slices.SortStableFunc(out, func(a, b RatedChange) int { return riskOrder(a.Risk) - riskOrder(b.Risk) })
	return out
}

func riskOrder(risk string) int {
	switch risk {
	case policy.RiskHigh:
		return 0
	case policy.RiskLow:
		return 2
	}
	return 1
}

// usersOf is which routes draw from each shared limit, before or after.
func usersOf(docs ...*policy.Document) map[string][]string {
	out := map[string][]string{}
	for _, d := range docs {
		if d == nil {
			continue
		}
		for i := range d.Routes {
			for _, name := range d.Routes[i].Uses {
				if !slices.Contains(out[name], d.Routes[i].Name) {
					out[name] = append(out[name], d.Routes[i].Name)
				}
			}
		}
	}
	return out
}

// renamedRoutes are the old names of routes, under which they were counted, by
// the new ones.
func renamedRoutes(changes []policy.Change) map[string]string {
	out := map[string]string{}
	for _, c := range changes {
		if c.Kind == policy.ChangeRenamed && c.LimitID == "" && strings.HasPrefix(c.Path, "routes[") {
			out[c.After] = c.Before
		}
	}
	return out
}

func (f ruleFacts) impact(c RatedChange, plans plansOf, uses map[string][]string, renamed map[string]string, d demand) *Impact {
	if strings.HasSuffix(c.Path, "description") || c.Path == "apiVersion" || c.Path == "replicas_expected" {
		return nil
	}
	at := f.scopeOf(c)
	switch {
	case at.plan != "":
		return planImpact(at.plan, plans, d)
	case f.addedRoute(c) != nil:
		return &Impact{Tenants: -1, RequestsPerDay: -1, Source: "a new route: a simulation can tell"}
	case at.route != "":
		return d.routeImpact(cmp.Or(renamed[at.route], at.route))
	}
	if name, ok := strings.CutPrefix(c.LimitID, "shared:"); ok {
		return d.sharedImpact(uses[name])
	}
	return d.impactOf(d.All)
}

func planImpact(plan string, plans plansOf, d demand) *Impact {
	out := &Impact{Tenants: plans.tenants[plan], RequestsPerDay: -1, Source: "tenants on the plan"}
	if d.Known >= knownEnough {
		out.RequestsPerDay = d.perDay(plans.requests[plan])
		out.Source += "; " + d.source()
	}
	return out
}

func (d demand) routeImpact(route string) *Impact {
	of, met := d.Routes[route]
	if !met && len(d.Routes) >= toldRoutes {
		return d.unknown()
	}
	return d.impactOf(of)
}

// sharedImpact adds up the routes that draw from a shared limit. Tenants may be
// on several of them: they are as many as on the busiest at least.
func (d demand) sharedImpact(routes []string) *Impact {
	var sum usage.Demand
	for _, r := range routes {
		of, met := d.Routes[r]
		if !met && len(d.Routes) >= toldRoutes {
			return d.unknown()
		}
		sum.Requests, sum.Tenants = sum.Requests+of.Requests, max(sum.Tenants, of.Tenants)
	}
	return d.impactOf(sum)
}

func (d demand) unknown() *Impact {
	return &Impact{Tenants: -1, RequestsPerDay: -1, Source: "not known"}
}

func (d demand) impactOf(of usage.Demand) *Impact {
	if d.Known < knownEnough {
		return d.unknown()
	}
	return &Impact{Tenants: of.Tenants, RequestsPerDay: d.perDay(of.Requests), Source: d.source()}
}
