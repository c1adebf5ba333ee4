package limiter

import (
	"context"
	"fmt"

	"github.com/headgate/headgate/policy"
)

const dayMicros = 24 * 60 * 60 * 1_000_000

// Settle corrects the cost of an admitted request once it is known: delta is the
// actual cost less the reserved one. It is applied to all charges and quotas of
// the draw that count cost, not to those that are PerRequest; hand it what
// Decision.Spent says. A call with an id takes effect once, however often it is
// repeated within an hour; "" always takes effect. What is given back becomes
// available on this replica at once, elsewhere within a second. Its error wraps
// ErrStore: it is then unknown whether it took effect.
func (l *Limiter) Settle(ctx context.Context, id string, draw *Draw, delta int64) error {
	_, err := l.SettleAt(ctx, id, draw, delta)
	return err
}

// SettleAt is Settle that says when the store did it, by its clock in Unix µs; 0 when
// the store did nothing: there is nothing to correct, or the id is known already.
func (l *Limiter) SettleAt(ctx context.Context, id string, draw *Draw, delta int64) (at int64, err error) {
	corrections := l.corrections(draw, delta)
	if len(corrections) == 0 {
		return 0, nil
	}
	if l.Degraded() {
		return 0, fmt.Errorf("settle: %w: it is not being asked", ErrStore)
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Budget)
	defer cancel()
	if at, err = l.amend(ctx, id, corrections); err != nil {
		return 0, fmt.Errorf("settle: %w", err)
	}
	l.counts.settled.Add(1)
	for i := range corrections {
		l.denied.forget(&corrections[i].Row)
	}
	return at, nil
}

func (l *Limiter) corrections(draw *Draw, delta int64) []Amendment {
	if delta == 0 {
		return nil
	}
	var list []Amendment
	for i := range draw.Charges {
		c := &draw.Charges[i]
		if !c.PerRequest && !c.Numbers.Blocked() {
			n, _ := l.numbersOf(c)
			list = append(list, Amendment{Row: c.Row, Hash: c.Hash, Numbers: n, Tokens: -min(delta, mostSettled(c))})
		}
	}
	for i := range draw.Quotas {
		q := &draw.Quotas[i]
		if !q.PerRequest {
			list = append(list, Amendment{Row: q.Row, Hash: q.Hash, Tokens: -delta, Quota: true, Start: q.Start, End: q.End})
		}
	}
	return list
}

// mostSettled bounds what one settlement charges to a limit beyond what was
// reserved, in tokens: what the limit can hold and, where the bucket is a tenant's
// own, what comes into it in a day. A cost is told by an upstream, and one that got
// its unit wrong must not close a limit that everybody shares for years.
func mostSettled(c *Charge) int64 {
	n := &c.Numbers
	if c.Row.Tenant == "" {
		return n.Burst
	}
	inADay := int64(policy.MaxUnits)
	if ahead := dayMicros/n.Period + 1; n.Tokens <= policy.MaxUnits/ahead {
		inADay = n.Tokens * ahead
	}
	return n.Burst + inADay
}

// Spent is what of a draw the decision spent: nothing when it refused or is
// degraded, else all of it, without the shadows if one of them refuses. Charges that
// were counted in an overflow bucket are left out, because no correction finds it.
func (d *Decision) Spent(draw *Draw) Draw {
	if !d.Allowed || d.Degraded || d.peeked {
		return Draw{}
	}
	shadows := !d.shadowRefuses()
	var spent Draw
	for i, c := range draw.Charges {
		if (shadows || !c.Shadow) && !(i < len(d.Levels) && d.Levels[i].Overflow) {
			spent.Charges = append(spent.Charges, c)
		}
	}
	for _, s := range draw.Slots {
		if shadows || !s.Shadow {
			spent.Slots = append(spent.Slots, s)
		}
	}
	for _, q := range draw.Quotas {
		if shadows || !q.Shadow {
			spent.Quotas = append(spent.Quotas, q)
		}
	}
	return spent
}

// shadowRefuses reports, for an admission, whether any part refuses: it can only
// be a shadow.
func (d *Decision) shadowRefuses() bool {
	for i := range d.Levels {
		if d.Levels[i].WaitMicros > 0 || d.Levels[i].Never {
			return true
		}
	}
	for i := range d.Slots {
		if d.Slots[i].Refused {
			return true
		}
	}
	for i := range d.Quotas {
		if d.Quotas[i].Refused {
			return true
		}
	}
	return false
}
