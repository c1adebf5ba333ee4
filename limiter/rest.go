package limiter

import (
	"context"
	"errors"
	"time"
)

// PartialError says that one part of a store did not answer for a draw, and that
// others may. Rest, called at most once and soon, decides by those: what the draw
// takes of the part that failed is Unknown in its outcome, and may have been
// charged.
type PartialError struct {
	Err  error // of the part that failed
	Rest func(context.Context) (Outcome, error)
}

func (e *PartialError) Error() string { return e.Err.Error() }

// Unwrap is the error of the part that failed.
func (e *PartialError) Unwrap() error { return e.Err }

// failure is a draw that the store did not answer.
type failure struct {
	generation uint64 // of the breaker
	mark       uint64 // of the deny cache
	reply      reply  // its times alone
	err        error
}

// decideWithout decides a request that the store did not answer, by its fail mode.
// Where the store can tell the limits that lie elsewhere they hold as well: a
// limit that cannot be asked stands in the way of no other.
func (l *Limiter) decideWithout(ctx context.Context, req *Request, a *asking, paid *payments, f *failure) Decision {
	cause := l.cfg.Cause(f.err)
	l.incidents.failed(cause)
	l.incidents.settle(f.reply.received, false) // the store was being asked until now
	d := l.byFailMode(req, cause)
	r, answered := l.askRest(ctx, req, a, &d, f)
	if !answered {
		l.record(ctx, f.generation, f.err)
		paid.refund()
		a.abandon(f.reply.received)
		l.keeper.disown(&a.draw, f.reply.received)
		l.countDegraded(req, &d)
		return d
	}
	l.record(ctx, f.generation, nil)
	l.deliverClaims(a, r)
	l.remember(a, req, r, f.mark)
	exact := a.decision(req, r.out)
	if lost := exact.lostLeases(&req.Draw); len(lost) > 0 {
		l.keeper.soon(lost, r.received)
	}
	if !exact.Allowed {
		paid.refund()
		return exact
	}
	d.Leases = exact.Leases
	l.countDegraded(req, &d)
	return d
}

// askRest asks what can be asked, in what is left of the budget, for a request that
// its fail mode admits.
func (l *Limiter) askRest(ctx context.Context, req *Request, a *asking, d *Decision, f *failure) (reply, bool) {
	left := l.cfg.Budget - time.Duration(f.reply.received-f.reply.sent)*time.Microsecond
	var partial *PartialError
	if !d.Allowed || req.Peek || left <= 0 || !errors.As(f.err, &partial) {
		return reply{}, false
	}
	within := newBudget(ctx, left)
	defer within.end()
	out, err := partial.Rest(within) //nolint:contextcheck // within hangs on ctx
	r := reply{out: out, sent: f.reply.sent, received: l.clock.micros()}
	return r, err == nil && out.check(&a.draw) == nil
}

// lostLeases are those of which nobody knows whether they were made.
func (d *Decision) lostLeases(draw *Draw) (lost []Lease) {
	for i := range d.Slots {
		if d.Slots[i].Unknown && d.Allowed {
			lost = append(lost, draw.Slots[i].Held())
		}
	}
	return lost
}
