package limiter

import "github.com/headgate/headgate/policy"

// asking is what a request asks of the store: its draw without what slices have
// paid, with the numbers that the store counts leased limits by, and with what
// slices need.
type asking struct {
	draw Draw
	// Where the parts of the draw stand in the request; nil: at the same places.
	charges, slots, quotas []int
	claims                 []claim
	slices                 []*slice // by charge of the draw; nil when none is leased
	probe                  bool     // the last quota is none of the request's: see peek
}

// claim is a refill that the draw carries.
type claim struct {
	slice *slice
	at    int // charge of the draw
}

// prepare makes the draw that is asked. A request without leased limits, shadows that
// can never pay and Peek is asked as it is.
func (l *Limiter) prepare(req *Request, now int64, paid *payments) asking {
	never := shadowNever(&req.Draw)
	if !never && !req.Peek && !l.anyLeased(&req.Draw) {
		return asking{draw: req.Draw}
	}
	a := asking{charges: []int{}, slots: []int{}, quotas: []int{}}
	for i := range req.Draw.Charges {
		if !paid.has(i) && (!never || !req.Draw.Charges[i].Shadow) {
			l.addCharge(&a, req, i, now)
		}
	}
	for i, s := range req.Draw.Slots {
		if !never || !s.Shadow {
			a.draw.Slots, a.slots = append(a.draw.Slots, s), append(a.slots, i)
		}
	}
	for i, q := range req.Draw.Quotas {
		if !never || !q.Shadow {
			a.draw.Quotas, a.quotas = append(a.draw.Quotas, q), append(a.quotas, i)
		}
	}
	if req.Peek {
		a.peek(&req.Draw)
	}
	return a
}

// shadowNever reports whether some shadow can never pay. Enforcing it would refuse
// the request whatever the store says, so no shadow is spent then, and none is
// asked.
func shadowNever(draw *Draw) bool {
	for i := range draw.Charges {
		if draw.Charges[i].Shadow && draw.Charges[i].never() {
			return true
		}
	}
	for i := range draw.Slots {
		if draw.Slots[i].Shadow && draw.Slots[i].never() {
			return true
		}
	}
	for i := range draw.Quotas {
		if draw.Quotas[i].Shadow && draw.Quotas[i].never() {
			return true
		}
	}
	return false
}

func (l *Limiter) anyLeased(draw *Draw) bool {
	for i := range draw.Charges {
		if l.marked(&draw.Charges[i]) {
			return true
		}
	}
	return false
}

// marked reports whether a limit is to be leased, if its numbers allow it. A shadow
// is asked each time: what it would have done is wanted of it.
func (l *Limiter) marked(c *Charge) bool {
	return (c.Leased || l.cfg.LeaseGlobal && c.Row.Kind == RowGlobal) && !c.Shadow
}

// numbersOf are the numbers that the store counts the charge by, and whether it
// is leased. A cost that only the whole burst can pay is asked for by the whole burst.
func (l *Limiter) numbersOf(c *Charge) (policy.Numbers, bool) {
	if !l.marked(c) {
		return c.Numbers, false
	}
	n, ok := leasedNumbers(c.Numbers)
	if !ok || c.Cost > n.Burst {
		return c.Numbers, false
	}
	return n, true
}

func (l *Limiter) addCharge(a *asking, req *Request, i int, now int64) {
	c := req.Draw.Charges[i]
	n, leased := l.numbersOf(&c)
	c.Numbers = n
	if leased && !req.Peek {
		l.addSlice(a, &c, now)
	}
	a.draw.Charges, a.charges = append(a.draw.Charges, c), append(a.charges, i)
}

// addSlice lets the draw carry a refill of the charge's slice, if one is wanted.
func (l *Limiter) addSlice(a *asking, c *Charge, now int64) {
	s := l.slices.of(c, now, true)
	if s == nil {
		return
	}
	at := len(a.draw.Charges)
	for len(a.slices) <= at {
		a.slices = append(a.slices, nil)
	}
	a.slices[at] = s
	if l.slices.isClosed() {
		return
	}
	if size := s.claim(now, c.Numbers, l.cfg.Replicas()); size > 0 {
		c.Extra = size
		a.claims = append(a.claims, claim{s, at})
	}
}

// peekHash names the quota that lets a peek spend nothing.
const peekHash = 0x7065656b // "peek"

// peek adds a part that always refuses: a draw is all or nothing, so the store
// judges all parts and spends none. It lies with the part that is asked first.
func (a *asking) peek(draw *Draw) {
	row := Row{Kind: RowGlobal}
	switch {
	case len(draw.Charges) > 0:
		row = draw.Charges[0].Row
	case len(draw.Slots) > 0:
		row = draw.Slots[0].Row
	case len(draw.Quotas) > 0:
		row = draw.Quotas[0].Row
	}
	a.draw.Quotas = append(a.draw.Quotas, Quota{Row: row, LimitID: "#peek", Hash: peekHash, Cost: 1})
	a.probe = true
}

// abandon ends the refills of a draw that came to nothing.
func (a *asking) abandon(now int64) {
	for _, c := range a.claims {
		c.slice.deliver(nil, now)
	}
}

// deliverClaims tells slices what the store said, and hands them what they got.
func (l *Limiter) deliverClaims(a *asking, r reply) {
	for at, s := range a.slices {
		if s != nil {
			c := &a.draw.Charges[at]
			s.heard(r.out.Levels[at], c.Numbers, c.Cost, r.received)
		}
	}
	for _, c := range a.claims {
		l.deliver(c.slice, r.out.Levels[c.at].Extra, r)
	}
}
