package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headgate/headgate/limiter"
)

// Bounds of what is given back after a refusal in a later lane.
const (
	maxRefunds    = 256
	refundTimeout = 500 * time.Millisecond
)

// lanePart is what a draw takes in one lane, and which parts of the draw those
// are.
type lanePart struct {
	lane, rank             int
	draw                   limiter.Draw
	charges, slots, quotas []int
	outcome                limiter.Outcome
	asked, shadowsWithheld bool
	lost                   bool // asked in vain: it may have been charged
}

// split sorts the parts of a draw by lane, in the order in which the lanes are
// asked: limits on everything, addresses, other dimensions, tenants. A limit that
// refuses many then costs one call.
func (s *Store) split(d *limiter.Draw) []*lanePart {
	var parts []*lanePart
	in := func(row limiter.Row) *lanePart {
		lane := s.keys.lane(row)
		for _, p := range parts {
			if p.lane == lane {
				return p
			}
		}
		p := &lanePart{lane: lane, rank: rank(row)}
		parts = append(parts, p)
		return p
	}
	for i := range d.Charges {
		p := in(d.Charges[i].Row)
		p.draw.Charges, p.charges = append(p.draw.Charges, d.Charges[i]), append(p.charges, i)
	}
	for i := range d.Slots {
		p := in(d.Slots[i].Row)
		p.draw.Slots, p.slots = append(p.draw.Slots, d.Slots[i]), append(p.slots, i)
	}
	for i := range d.Quotas {
		p := in(d.Quotas[i].Row)
		p.draw.Quotas, p.quotas = append(p.draw.Quotas, d.Quotas[i]), append(p.quotas, i)
	}
	slices.SortStableFunc(parts, func(a, b *lanePart) int { return a.rank - b.rank })
	return parts
}

func rank(row limiter.Row) int {
	switch {
	case row.Kind == limiter.RowGlobal:
		return 0
	case row.Tenant != "":
		return 3
	case row.Kind == limiter.RowIP:
		return 1
	default:
		return 2
	}
}

// oneLane is the lane in which the whole draw lies, if there is one.
func (s *Store) oneLane(d *limiter.Draw) (lane int, is bool) {
	lane = -1
	same := func(row limiter.Row) bool {
		at := s.keys.lane(row)
		if lane < 0 {
			lane = at
		}
		return lane == at
	}
	for i := range d.Charges {
		if !same(d.Charges[i].Row) {
			return 0, false
		}
	}
	for i := range d.Slots {
		if !same(d.Slots[i].Row) {
			return 0, false
		}
	}
	for i := range d.Quotas {
		if !same(d.Quotas[i].Row) {
			return 0, false
		}
	}
	return max(lane, 0), true
}

// crossing is a draw of several lanes on its way through them.
type crossing struct {
	draw  *limiter.Draw
	parts []*lanePart
	flags byte
}

// takeAcross decides a draw on a Cluster, lane by lane. When one refuses, what
// those before it spent is given back soon after, and those after it are not
// asked. An error leaves them charged: nobody knows what the lane that failed has
// done, and a limit that admits too little mends itself.
func (s *Store) takeAcross(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	if lane, is := s.oneLane(d); is {
		return s.takeIn(ctx, lane, d, 0)
	}
	return s.cross(ctx, crossing{draw: d, parts: s.split(d)})
}

// cross asks the lanes that have not been asked yet.
func (s *Store) cross(ctx context.Context, c crossing) (limiter.Outcome, error) {
	admitted := true
	for _, p := range c.parts {
		if p.asked || p.lost {
			continue
		}
		var err error
		if p.outcome, err = s.takePart(ctx, p, c.flags); err != nil {
			return limiter.Outcome{}, s.without(c, p, err)
		}
		p.asked, p.shadowsWithheld = true, c.flags != 0
		if shadowRefuses(&p.draw, &p.outcome) {
			c.flags = withholdShadows
		}
		if admitted = p.outcome.Admitted; !admitted {
			break
		}
	}
	var back givenBack
	for _, p := range c.parts {
		if !p.asked || !p.outcome.Admitted {
			continue
		}
		shadowsSpent := !p.shadowsWithheld && !shadowRefuses(&p.draw, &p.outcome)
		back.collect(p, !admitted, shadowsSpent && (c.flags != 0 || !admitted))
	}
	s.giveBack(back) //nolint:contextcheck // it goes on when the request has its answer
	return s.assemble(c.draw, c.parts, admitted), nil
}

// takePart asks one of several lanes. One that did not answer last time may take half
// of the time that is left, so that some is left for the others.
func (s *Store) takePart(ctx context.Context, p *lanePart, flags byte) (limiter.Outcome, error) {
	if deadline, limited := ctx.Deadline(); limited && s.shards.ails(p.lane) {
		half, cancel := context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
		return s.takeIn(half, p.lane, &p.draw, flags)
	}
	return s.takeIn(ctx, p.lane, &p.draw, flags)
}

// without is the error of a lane, with the way on to the others where there is one.
func (s *Store) without(c crossing, p *lanePart, err error) error {
	if errors.Is(err, limiter.ErrRow) || errors.Is(err, limiter.ErrCharges) || errors.Is(err, context.Canceled) {
		return err
	}
	p.lost = true
	if !slices.ContainsFunc(c.parts, func(p *lanePart) bool { return !p.lost }) {
		return err
	}
	return &limiter.PartialError{Err: err, Rest: func(ctx context.Context) (limiter.Outcome, error) {
		out, err := s.cross(ctx, c)
		if err != nil {
			return limiter.Outcome{}, storeError("take the rest", err)
		}
		return out, nil
	}}
}

func shadowRefuses(d *limiter.Draw, out *limiter.Outcome) bool {
	for i := range d.Charges {
		if d.Charges[i].Shadow && out.Levels[i].WaitMicros > 0 {
			return true
		}
	}
	for i := range d.Slots {
		if d.Slots[i].Shadow && out.Slots[i].Refused {
			return true
		}
	}
	for i := range d.Quotas {
		if d.Quotas[i].Shadow && out.Quotas[i].Refused {
			return true
		}
	}
	return false
}

// assemble is the outcome of the draw from those of its lanes. Their servers' clocks
// may differ: it tells the earliest, so that slices are not younger than they are.
func (s *Store) assemble(d *limiter.Draw, parts []*lanePart, admitted bool) limiter.Outcome {
	out := limiter.Outcome{
		Admitted: admitted, Levels: make([]limiter.Level, len(d.Charges)),
		Slots: make([]limiter.SlotLevel, len(d.Slots)), Quotas: make([]limiter.QuotaLevel, len(d.Quotas)),
	}
	for _, p := range parts {
		if now := p.outcome.NowMicros; p.asked && (out.NowMicros == 0 || now < out.NowMicros) {
			out.NowMicros = now
		}
		for i, at := range p.charges {
			if out.Levels[at].Unknown = !p.asked; p.asked {
				out.Levels[at] = p.outcome.Levels[i]
			}
		}
		for i, at := range p.slots {
			if out.Slots[at].Unknown = !p.asked; p.asked {
				out.Slots[at] = p.outcome.Slots[i]
			}
		}
		for i, at := range p.quotas {
			if p.asked {
				out.Quotas[at] = p.outcome.Quotas[i]
			}
		}
	}
	return out
}

// givenBack is what a lane spent in vain.
type givenBack struct {
	corrections []correction
	leases      []limiter.Lease
}

// correction is an amendment that may be of the overflow bucket in its row's
// place.
type correction struct {
	limiter.Amendment
	overflow bool
}

// collect notes what a lane has to take back, the shadows or all the rest or
// both, and makes its outcome say what it will be then.
func (g *givenBack) collect(p *lanePart, enforced, shadows bool) {
	wanted := func(shadow bool) bool { return shadow && shadows || !shadow && enforced }
	for i := range p.draw.Charges {
		if c, l := &p.draw.Charges[i], &p.outcome.Levels[i]; wanted(c.Shadow) {
			tokens := c.Cost + l.Extra
			g.corrections = append(g.corrections, correction{
				limiter.Amendment{Row: c.Row, Hash: c.Hash, Numbers: c.Numbers, Tokens: tokens, Since: p.outcome.NowMicros}, l.Overflow,
			})
			l.Units, l.Extra = min(l.Units+tokens*c.Numbers.Period, c.Numbers.Full()), 0
		}
	}
	for i := range p.draw.Slots {
		if sl := &p.draw.Slots[i]; wanted(sl.Shadow) {
			g.leases = append(g.leases, sl.Held())
			p.outcome.Slots[i].Active--
		}
	}
	for i := range p.draw.Quotas {
		if q, l := &p.draw.Quotas[i], &p.outcome.Quotas[i]; wanted(q.Shadow) {
			g.corrections = append(g.corrections, correction{limiter.Amendment{
				Row: q.Row, Hash: q.Hash, Tokens: q.Cost, Quota: true, Start: q.Start, End: q.End,
			}, false})
			l.Used, l.Overage = l.Used-q.Cost, false
		}
	}
}

// giveBack corrects in the background. When too much of it is under way already
// it does not: then less is admitted than could be, until the buckets refill and
// the leases end.
func (s *Store) giveBack(back givenBack) {
	if len(back.corrections) == 0 && len(back.leases) == 0 {
		return
	}
	select {
	case s.room <- struct{}{}:
	default:
		return
	}
	s.refunds.Go(func() {
		defer func() { <-s.room }()
		ctx, cancel := context.WithTimeout(context.Background(), refundTimeout)
		defer cancel()
		_ = s.correct(ctx, "", back.corrections) // the outcome was told without it
		_ = s.Release(ctx, back.leases)
	})
}
