package gateway

import (
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// drawn is what a request draws from: charges for the limiter and, at the same
// indexes, the limits they belong to.
type drawn struct {
	charges []limiter.Charge
	limits  []*policy.CompiledLimit
}

// draw lists the charges of a request, cheapest layer first: global, the
// tenant's plan, then what the route shares and its own.
func draw(c *policy.Compiled, route *policy.CompiledRoute, plan []policy.CompiledLimit, v *Verdict) drawn {
	n := len(c.Global) + len(plan) + len(route.Limits)
	d := drawn{charges: make([]limiter.Charge, 0, n), limits: make([]*policy.CompiledLimit, 0, n)}
	for _, layer := range [][]policy.CompiledLimit{c.Global, plan, route.Limits} {
		for i := range layer {
			d.add(&layer[i], v)
		}
	}
	return d
}

func (d *drawn) add(l *policy.CompiledLimit, v *Verdict) {
	if l.Unlimited {
		return
	}
	cost := v.Cost
	if l.Counts == policy.CountsRequests {
		cost = 1
	}
	d.limits = append(d.limits, l)
	d.charges = append(d.charges, limiter.Charge{Row: rowOf(l.Per, v), LimitID: l.ID, Hash: l.Hash, Numbers: l.Numbers, Cost: cost})
}

// rowOf says whose bucket a limit is counted in. A dimension that the request
// lacks never means "no limit": without a credential the tenant has one bucket
// for all such requests, without a tenant the address has.
func rowOf(per policy.Per, v *Verdict) limiter.Row {
	switch {
	case per == policy.PerGlobal:
		return limiter.Row{Kind: limiter.RowGlobal}
	case per == policy.PerTenant && v.Tenant != "":
		return limiter.Row{Kind: limiter.RowTenant, Tenant: v.Tenant}
	case per == policy.PerCredential && v.Tenant != "":
		return limiter.Row{Kind: limiter.RowCredential, Tenant: v.Tenant, Subject: v.Credential}
	}
	return limiter.Row{Kind: limiter.RowIP, Subject: v.Subject}
}

// states tells what the store said about each limit.
func (d drawn) states(levels []limiter.Level) []LimitState {
	if len(levels) != len(d.limits) {
		return nil
	}
	out := make([]LimitState, len(levels))
	for i, level := range levels {
		n := d.limits[i].Numbers
		out[i] = LimitState{
			Limit: d.limits[i], Cost: d.charges[i].Cost, WaitMicros: level.WaitMicros,
			Remaining: level.Remaining(n), NextMicros: level.NextMicros(n), Blocked: n.Blocked(),
		}
	}
	return out
}

// blocked tells the limits of a request that a limit of 0 refused before the
// store was asked: only the zeros are known.
func (d drawn) blocked() []LimitState {
	var out []LimitState
	for i, l := range d.limits {
		if l.Numbers.Blocked() {
			out = append(out, LimitState{Limit: l, Cost: d.charges[i].Cost, Blocked: true})
		}
	}
	return out
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
