package console

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

// UsageSource reports from the ledger's sums; *Ledger is one.
type UsageSource interface {
	Report(ctx context.Context, actor Actor, q UsageQuery) (UsageReport, error)
}

// Bounds of a long look.
const (
	longDays    = 31
	longTenants = 200
	longRoutes  = 20
)

// LongAdvice is what the ledger says of a limit over days: sums of whole hours, which
// hide what goes on within one. Where the limit's window is shorter than an hour, the
// hour's mean per window is the least that its fullest window had, and nothing says how
// much more that was.
type LongAdvice struct {
	ID, Plan string
	From, To time.Time
	Window   time.Duration // of the figures: an hour
	Exact    bool          // the limit's own window is an hour
	Tenants  []TenantUse   // by hour; the fullest first
	LeftOut  int           // tenants beyond those that are told apart
	Through  time.Time     // up to here the ledger is complete; zero: unknown
	At       time.Time
}

// Long tells how tenants used a limit that is counted per tenant over the last days,
// by the ledger. Routes tell what was charged to it.
func (s *Advisor) Long(ctx context.Context, actor Actor, from UsageSource, id, plan string, days int) (LongAdvice, error) {
	out := LongAdvice{ID: id, Plan: plan, Window: time.Hour}
	if err := actor.need(PermView); err != nil {
		return out, err
	}
	var p problems
	if days < 1 || days > longDays {
		p.add("days", "Must be 1 to %d.", longDays)
	}
	have, err := s.inForce(ctx)
	if err != nil {
		return out, err
	}
	l, routes := have.chargedBy(id, plan)
	switch {
	case l == nil:
		p.add("limit", "The policy in force has no rate limit of this id.")
	case l.Per != policy.PerTenant:
		p.add("limit", "The ledger knows tenants alone, and this limit is counted per %s.", l.Per.Text())
	case len(routes) > longRoutes:
		p.add("limit", "More than %d routes charge this limit.", longRoutes)
	}
	if err := p.err(); err != nil {
		return out, err
	}
	out.Exact = l.Rate.Period == time.Hour
	out.To = s.d.now().Truncate(time.Hour)
	out.From, out.At = out.To.Add(-time.Duration(days)*24*time.Hour), s.d.now()
	sums, err := s.hours(ctx, actor, from, l, routes, &out)
	if err != nil {
		return out, err
	}
	return out, s.longUse(ctx, have, l, sums, &out)
}

// hours are what each tenant asked for hour by hour. Refused requests count one each:
// the ledger does not know what they would have cost.
func (s *Advisor) hours(ctx context.Context, actor Actor, from UsageSource, l *policy.CompiledLimit, routes []string, out *LongAdvice) (map[string][]int64, error) {
	sums := map[string][]int64{}
	for _, route := range routes {
		q := UsageQuery{From: out.From, To: out.To, Step: StepHour, Group: GroupTenant, Top: longTenants, By: ByRequests, Route: route}
		r, err := from.Report(ctx, actor, q)
		if err != nil {
			return nil, err
		}
		out.LeftOut = max(out.LeftOut, r.RestCount)
		out.Through = r.Through
		for _, line := range r.Groups {
			if line.Key == "" {
				continue
			}
			hours := sums[line.Key]
			if hours == nil {
				hours = make([]int64, len(r.Steps))
				sums[line.Key] = hours
			}
			for i := range min(len(hours), len(line.Steps)) {
				hours[i] += charged(l, line.Steps[i])
			}
		}
	}
	return sums, nil
}

// charged is what a limit was asked for by some sums. What was decided without Redis
// was asked for, too.
func charged(l *policy.CompiledLimit, u UsageSums) int64 {
	if l.Counts == policy.CountsRequests {
		return u.Admitted + u.Interrupted + u.Refused
	}
	return u.Cost + u.InterruptedCost + u.Refused
}

func (s *Advisor) longUse(ctx context.Context, have *law, l *policy.CompiledLimit, sums map[string][]int64, out *LongAdvice) error {
	lookup, ids := s.tenantsOf(ctx, have), make([]string, 0, len(sums))
	for id := range sums {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	names, err := s.d.tenantNames(ctx, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		t, err := lookup(id)
		if err != nil {
			return err
		}
		counts := map[int64]int64{}
		for _, sum := range sums[id] {
			if sum > 0 {
				counts[sum]++
			}
		}
		if t == nil || len(counts) == 0 || l.Source == "plan "+out.Plan && t.plan != out.Plan {
			continue
		}
		n := t.of(l, out.At)
		if n.unlimited {
			continue
		}
		out.Tenants = append(out.Tenants, TenantUse{Tenant: id, Name: names[id], Asked: percentilesOf(counts),
			Allowed: perWindow(n.numbers, time.Hour), Burst: n.numbers.Burst, Own: n.own})
	}
	slices.SortFunc(out.Tenants, func(a, b TenantUse) int {
		return cmp.Or(cmp.Compare(b.UsedPercent(), a.UsedPercent()), strings.Compare(a.Tenant, b.Tenant))
	})
	return nil
}

// chargedBy finds a rate limit and the routes whose requests it is charged for: "" for
// every one. Plan names whose limit it is where it is a plan's.
func (l *law) chargedBy(id, plan string) (*policy.CompiledLimit, []string) {
	for i := range l.Global {
		if l.Global[i].ID == id {
			return &l.Global[i], []string{""}
		}
	}
	var out *policy.CompiledLimit
	var routes []string
	for i := range l.Plans[plan] {
		if l.Plans[plan][i].ID == id {
			out = &l.Plans[plan][i]
		}
	}
	for _, r := range l.Routes {
		if out != nil && out.Source == "plan "+plan {
			if r.Route.Identity == policy.IdentityAPIKey {
				routes = append(routes, r.Name)
			}
			continue
		}
		for i := range r.Limits {
			if r.Limits[i].ID == id {
				out, routes = &r.Limits[i], append(routes, r.Name)
			}
		}
	}
	if len(routes) > longRoutes && out != nil && out.Source == "plan "+plan {
		routes = []string{""} // all there is; what knows no tenant has none in the ledger
	}
	return out, routes
}
