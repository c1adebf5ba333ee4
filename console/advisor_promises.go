package console

import (
	"context"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

// Promise is what the limits let all tenants together ask of a route, beside what it
// was measured to take. Rates are thousandths of a request a second, sustained: bursts
// come on top, and quotas, concurrency and limits counted per anything but tenant or
// global bound it no further.
type Promise struct {
	Route     string
	Pattern   string
	Identity  string
	Milli     int64 // the sum over tenants, or the global bound where that is less
	Sum       int64 // the sum over tenants alone; math.MaxInt64 when one is not limited
	Unlimited bool  // nothing bounds it
	Why       string
	Tenants   int64
	Own       int64          // of them with numbers of their own
	Plans     []PromisedPlan // the largest part first
	Capacity  *KnownCapacity // nil: never measured
	Use       *RouteUse      // nil: unknown
}

// PromisedPlan is a plan's part of a promise, without tenants that have numbers of
// their own.
type PromisedPlan struct {
	Plan      string
	Tenants   int64
	Each      int64
	Unlimited bool
}

// TimesMilli is the promise in thousandths of the measured capacity; 0 when either is
// unknown or unlimited.
func (p *Promise) TimesMilli() int64 {
	if p.Unlimited || p.Capacity == nil || p.Capacity.KneeMilli == 0 {
		return 0
	}
	out := new(big.Int).Mul(big.NewInt(p.Milli), big.NewInt(1000))
	out.Quo(out, big.NewInt(p.Capacity.KneeMilli))
	if !out.IsInt64() {
		return math.MaxInt64
	}
	return out.Int64()
}

// Promises tells of each route of the policy in force what its limits promise, and
// what it was measured to take.
func (s *Advisor) Promises(ctx context.Context) ([]Promise, error) {
	have, err := s.inForce(ctx)
	if err != nil {
		return nil, err
	}
	known, err := s.capacities.Known(ctx)
	if err != nil {
		return nil, err
	}
	crowd, err := s.crowd(ctx, have)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	report := s.state.Report
	s.mu.Unlock()
	out := make([]Promise, 0, len(have.Routes))
	for _, r := range have.Routes {
		p := crowd.promise(have, r, s.d.now())
		if c, ok := known[r.Name]; ok {
			p.Capacity = &c
		}
		if report != nil {
			if i := slices.IndexFunc(report.Routes, func(u RouteUse) bool { return u.Route == r.Name }); i >= 0 {
				p.Use = &report.Routes[i]
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// crowd is who may ask: tenants by plan, and those with numbers of their own.
type crowd struct {
	plans map[string]int64
	own   []*knownTenant
	met   map[string]map[string][]*policy.CompiledLimit // by plan and route
}

// limits are what a tenant on a plan meets.
func (c crowd) limits(have *law, plan string) map[string][]*policy.CompiledLimit {
	if c.met[plan] == nil {
		c.met[plan] = have.met(plan)
	}
	return c.met[plan]
}

func (s *Advisor) crowd(ctx context.Context, have *law) (c crowd, err error) {
	c.met = map[string]map[string][]*policy.CompiledLimit{}
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if c.plans, err = tx.CountByPlan(ctx); err != nil {
			return err
		}
		ids, err := ownerIDs(ctx, tx, s.d.now())
		if err != nil || len(ids) == 0 {
			return err
		}
		plans, err := tx.PlansOf(ctx, ids)
		if err != nil {
			return err
		}
		open, err := tx.OpenOverrides(ctx, ids)
		if err != nil {
			return err
		}
		by := map[string][]TenantOverride{}
		for _, o := range open {
			by[o.TenantID] = append(by[o.TenantID], o)
		}
		for id, own := range by {
			if plan, ok := plans[id]; ok {
				c.own = append(c.own, &knownTenant{id: id, plan: plan, own: own, limits: c.limits(have, plan)})
			}
		}
		return nil
	})
	return c, err
}

// ownerIDs are the tenants with an override or a boost that holds now.
func ownerIDs(ctx context.Context, tx Tx, now time.Time) ([]string, error) {
	seen := map[string]bool{}
	for after := (Cursor{}); ; {
		rows, err := tx.Overrides(ctx, OverrideQuery{State: OverridesLive}, now, after, maxPage)
		if err != nil {
			return nil, err
		}
		for _, o := range rows {
			seen[o.TenantID] = true
			after = Cursor{At: o.CreatedAt, ID: o.ID}
		}
		if len(rows) < maxPage {
			return slices.Sorted(maps.Keys(seen)), nil
		}
	}
}

// promise adds up what a route's callers may ask for.
func (c crowd) promise(have *law, r *policy.CompiledRoute, now time.Time) Promise {
	out := Promise{Route: r.Name, Identity: string(r.Route.Identity)}
	if len(r.Route.Match) > 0 {
		out.Pattern = r.Route.Match[0]
	}
	roof := roofOf(have, r, now)
	if r.Route.Identity != policy.IdentityAPIKey {
		out.Sum, out.Why = math.MaxInt64, "callers are known by their "+string(r.Route.Identity)+", and nobody knows how many there are"
		out.Milli, out.Unlimited = roof, roof == math.MaxInt64
		return out
	}
	rest := map[string]int64{}
	for plan, n := range c.plans {
		rest[plan] = n
	}
	for _, t := range c.own {
		rest[t.plan]--
		out.Own++
		out.Sum = plus(out.Sum, eachOf(t, r, now))
	}
	for plan, n := range rest {
		if n <= 0 {
			continue
		}
		each := eachOf(&knownTenant{plan: plan, limits: c.limits(have, plan)}, r, now)
		out.Plans = append(out.Plans, PromisedPlan{Plan: plan, Tenants: n, Each: each, Unlimited: each == math.MaxInt64})
		out.Sum, out.Tenants = plus(out.Sum, times(each, n)), out.Tenants+n
	}
	out.Tenants += out.Own
	slices.SortFunc(out.Plans, func(a, b PromisedPlan) int {
		x, y := times(a.Each, a.Tenants), times(b.Each, b.Tenants)
		if x != y {
			if x > y {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Plan, b.Plan)
	})
	if out.Sum == math.MaxInt64 {
		out.Why = "at least one plan has no limit per tenant here"
	}
	out.Milli = min(out.Sum, roof)
	out.Unlimited = out.Milli == math.MaxInt64
	return out
}

// eachOf is what one tenant may ask of a route; math.MaxInt64 without a bound.
func eachOf(t *knownTenant, r *policy.CompiledRoute, now time.Time) int64 {
	least := int64(math.MaxInt64)
	for _, l := range t.limits[r.Name] {
		if l.Per != policy.PerTenant || l.Shadow || l.Expired(now.UnixMicro()) {
			continue
		}
		if n := t.of(l, now); !n.unlimited {
			least = min(least, milliOf(n.numbers, l, r))
		}
	}
	return least
}

// roofOf is what everybody together may ask of a route; math.MaxInt64 without a bound.
func roofOf(have *law, r *policy.CompiledRoute, now time.Time) int64 {
	least := int64(math.MaxInt64)
	for _, l := range have.met("")[r.Name] {
		if l.Per == policy.PerGlobal && !l.Shadow && !l.Unlimited && !l.Expired(now.UnixMicro()) {
			least = min(least, milliOf(l.Numbers, l, r))
		}
	}
	return least
}

// milliOf is how many requests of a route numbers let through, in thousandths a
// second, rounded down. Where the cost is computed, each request costs 1 at least.
func milliOf(n policy.Numbers, l *policy.CompiledLimit, r *policy.CompiledRoute) int64 {
	if n.Blocked() {
		return 0
	}
	cost := int64(1)
	if l.Counts != policy.CountsRequests && r.Route.GraphQL == nil && r.Route.SettleHeader == "" {
		cost = max(r.Cost, 1)
	}
	out := new(big.Int).Mul(big.NewInt(n.Tokens), big.NewInt(1_000_000_000)) // µs, and thousandths
	out.Quo(out, new(big.Int).Mul(big.NewInt(n.Period), big.NewInt(cost)))
	if !out.IsInt64() {
		return math.MaxInt64 - 1
	}
	return out.Int64()
}

// plus and times stop at math.MaxInt64, which stands for no bound.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a, n int64) int64 {
	if n != 0 && a > math.MaxInt64/n {
		return math.MaxInt64
	}
	return a * n
}
