package gateway

import (
	"slices"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// drawing is what a request draws from, and what is told of it: one state for
// each charge, then for each slot, then for each quota of the draw.
type drawing struct {
	draw      limiter.Draw
	states    []LimitState
	apart     []LimitState  // not in the draw: lifted by an override, or a shadow of 0
	own       []limiter.Row // of the route's limits
	now       int64         // estimate of the store's clock, Unix µs
	overrides *policy.Overrides
	rows      rows
}

// again is an empty drawing that has the room of d, if there is a d.
func (d *drawing) again() *drawing {
	if d == nil {
		return &drawing{}
	}
	clear(d.draw.Slots) // leases end with their request
	*d = drawing{
		draw:   limiter.Draw{Charges: d.draw.Charges[:0], Slots: d.draw.Slots[:0], Quotas: d.draw.Quotas[:0]},
		states: d.states[:0], apart: d.apart[:0], own: d.own[:0],
	}
	return d
}

// drawing lists what the request draws from, cheapest layer first: global, what
// is counted by address and the like, the tenant's plan, what the route shares
// and its own, concurrency, quota.
func (g *Gateway) drawing(in *Inbound, v *Verdict, caller *caller) *drawing {
	c, route := v.Policy.Compiled, v.Route
	d := v.room.again()
	v.drawn, v.room = d, d
	n := len(c.Global) + len(caller.plan) + len(route.Limits)
	d.draw.Charges, d.states = slices.Grow(d.draw.Charges, n), slices.Grow(d.states, n+2)
	d.now, d.overrides = g.limiter.StoreNow(), caller.overrides
	d.rows = rows{g: g, in: in, v: v, view: g.viewOf(c), user: caller.user}
	d.addAll(c.Global)
	for i := range route.Limits {
		row := d.rows.of(route.Limits[i].Dimensions)
		d.own = append(d.own, row)
		d.add(&route.Limits[i], row, row.Tenant == "")
	}
	d.addAll(caller.plan)
	for i := range route.Limits {
		d.add(&route.Limits[i], d.own[i], d.own[i].Tenant != "")
	}
	if route.Concurrency != nil {
		d.slot(route.Concurrency)
	}
	if caller.quota != nil {
		d.quota(caller)
	}
	v.recorded.user = d.rows.user.id
	d.rows = rows{} // the request is over sooner than the verdict
	return d
}

func (d *drawing) addAll(limits []policy.CompiledLimit) {
	for i := range limits {
		d.add(&limits[i], d.rows.of(limits[i].Dimensions), true)
	}
}

// add adds a rate limit that is wanted now and still holds.
func (d *drawing) add(l *policy.CompiledLimit, row limiter.Row, wanted bool) {
	if wanted && !l.Expired(d.now) {
		d.charge(l, row)
	}
}

// charge adds a rate limit.
func (d *drawing) charge(l *policy.CompiledLimit, row limiter.Row) {
	numbers, from := d.inForce(l, row)
	cost := d.rows.v.Cost
	if l.Counts == policy.CountsRequests {
		cost = d.rows.v.hits
	}
	if from.Unlimited {
		if l.Unlimited { // by the policy itself: no limit at all
			return
		}
		d.apart = append(d.apart, LimitState{Kind: LimitRate, ID: l.ID, Cost: cost, Unlimited: true, Shadow: l.Shadow, From: from})
		return
	}
	state := rateState(l, numbers, from, cost)
	d.states = append(d.states, state)
	d.draw.Charges = append(d.draw.Charges, limiter.Charge{
		Row: row, LimitID: l.ID, Hash: l.Hash, Numbers: numbers, Cost: cost, Shadow: l.Shadow,
		Identifiers: identifiers(row), Leased: l.Leased, PerRequest: l.Counts == policy.CountsRequests,
	})
}

// inForce gives the numbers of a limit for this request. A tenant's overrides
// hold for what is counted within the tenant only: two tenants could not have
// different numbers for one bucket.
func (d *drawing) inForce(l *policy.CompiledLimit, row limiter.Row) (policy.Numbers, policy.Provenance) {
	if d.overrides == nil || row.Tenant == "" {
		return l.Numbers, policy.Provenance{Source: l.Source, ExpiresMicros: l.ExpiresMicros, Unlimited: l.Unlimited}
	}
	return d.overrides.Limit(l, d.now)
}

// slot adds the route's concurrency limit.
func (d *drawing) slot(c *policy.CompiledConcurrency) {
	row, most, from := d.rows.of(c.Dimensions), c.Max, policy.Provenance{Source: c.Source}
	if row.Tenant != "" {
		most, from = d.overrides.Slots(c, d.now)
	}
	state := LimitState{Kind: LimitConcurrency, ID: c.ID, Quota: most, Cost: 1, Shadow: c.Shadow, Unlimited: from.Unlimited, From: from}
	state.Blocked = most < 1 && !from.Unlimited
	if from.Unlimited || state.Blocked && c.Shadow {
		state.Refused = state.Blocked
		d.apart = append(d.apart, state)
		return
	}
	d.states = append(d.states, state)
	d.draw.Slots = append(d.draw.Slots, limiter.Slot{
		Row: row, LimitID: c.ID, Hash: c.Hash, Max: most, Lease: d.rows.g.leaseName(d.now), HoldMicros: c.Hold.Microseconds(), Shadow: c.Shadow,
	})
}

// quota adds the quota of the tenant's plan.
func (d *drawing) quota(caller *caller) {
	q, cost := caller.quota, d.rows.v.Cost
	if q.Counts == policy.CountsRequests {
		cost = d.rows.v.hits
	}
	start, end := d.rows.view.periods.at(q, &caller.terms, time.UnixMicro(d.now))
	amount, most, from := caller.overrides.Quota(q, d.now)
	amount, most, from = caller.grants.Add(start.UnixMicro(), amount, most, from)
	state := LimitState{Kind: LimitQuota, ID: q.ID, Quota: amount, Cost: cost, Shadow: q.Shadow, Unlimited: from.Unlimited, From: from}
	bill := q.Over == policy.OverBill
	if state.Blocked = amount == 0 && !bill && !from.Unlimited; from.Unlimited || state.Blocked && q.Shadow {
		state.Refused = state.Blocked
		d.apart = append(d.apart, state)
		return
	}
	part := limiter.Quota{
		Row: limiter.Row{Kind: limiter.RowTenant, Tenant: d.rows.v.Tenant}, LimitID: q.ID, Hash: q.Hash, Start: start.UnixMicro(),
		Cost: cost, Amount: amount, Most: most, Bill: bill, Shadow: q.Shadow,
		Recorded: d.rows.g.cfg.Spool != nil || d.rows.in.Peek && d.rows.in.Recorded,
	}
	if !bill {
		part.Most = amount
	}
	if !end.IsZero() {
		part.End = end.UnixMicro()
		state.Window = int64(end.Sub(start) / time.Second)
	}
	d.states = append(d.states, state)
	d.draw.Quotas = append(d.draw.Quotas, part)
}

// hopeless finds what no waiting would help: a limit of 0, or a cost above all
// that a limit can ever hold. It returns the limits that say so.
func (d *drawing) hopeless() (limiter.Reason, []LimitState) {
	var blocked, tooMuch []LimitState
	for i := range d.states {
		s := &d.states[i]
		switch {
		case s.Shadow:
		case s.Blocked:
			blocked = append(blocked, *s)
		case d.most(i) < s.Cost:
			tooMuch = append(tooMuch, *s)
		}
	}
	if len(blocked) > 0 {
		return limiter.ReasonBlocked, blocked
	}
	if len(tooMuch) > 0 {
		return limiter.ReasonCostExceedsBurst, tooMuch
	}
	return "", nil
}

// most is the highest cost that the limit of a state could ever pay.
func (d *drawing) most(i int) int64 {
	switch s := &d.states[i]; s.Kind {
	case LimitRate:
		return s.Burst
	case LimitQuota:
		return d.draw.Quotas[i-len(d.draw.Charges)-len(d.draw.Slots)].Cap()
	default:
	}
	return maxCost
}

// tell takes in what the store said about each limit. What it was not asked is
// unknown.
func (d *drawing) tell(answer *limiter.Decision) {
	charges, slots := len(d.draw.Charges), len(d.draw.Slots)
	for i := range d.states {
		switch s, slot, quota := &d.states[i], i-charges, i-charges-slots; {
		case i < len(answer.Levels) && i < charges:
			s.charged(answer.Levels[i], d.draw.Charges[i].Numbers)
		case slot >= 0 && slot < min(slots, len(answer.Slots)):
			s.placed(answer.Slots[slot])
		case quota >= 0 && quota < len(answer.Quotas):
			s.used(answer.Quotas[quota], &d.draw.Quotas[quota], answer.NowMicros)
		default:
			s.Unknown = true
		}
	}
}

// sort parts the states into those that callers are told and the rest.
func (d *drawing) sort(v *Verdict, answer *limiter.Decision) {
	deciding := answer.Deciding
	switch charges := len(d.draw.Charges); answer.DecidingKind {
	case limiter.PartSlot:
		deciding += charges
	case limiter.PartQuota:
		deciding += charges + len(d.draw.Slots)
	default:
	}
	v.Limits, v.Deciding = d.states[:0], -1
	for i := range d.states {
		s := d.states[i]
		if s.Shadow {
			v.Shadows = append(v.Shadows, s)
			continue
		}
		if i == deciding {
			v.Deciding = len(v.Limits)
		}
		v.Limits = append(v.Limits, s)
	}
	for _, s := range d.apart {
		if s.Shadow {
			v.Shadows = append(v.Shadows, s)
		} else {
			v.Unlimited = append(v.Unlimited, s)
		}
	}
}
