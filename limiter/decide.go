package limiter

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate/policy"
)

// Decide answers for one request within the budget. It never returns an error:
// what the store cannot answer is decided by the request's fail mode, and the
// Decision says so. A call that failed is never repeated, because the store may
// have charged it.
func (l *Limiter) Decide(ctx context.Context, req Request) Decision {
	if len(req.Draw.Charges) == 0 {
		return Decision{Allowed: true, Reason: ReasonAdmitted, Deciding: -1, NowMicros: l.clock.micros()}
	}
	if d, never := l.neverPasses(req.Draw.Charges); never {
		return d
	}
	generation, ask := l.breaker.allow()
	if !ask {
		return l.withoutStore(req)
	}
	out, err := l.ask(ctx, &req.Draw)
	l.record(ctx, generation, err)
	if err != nil {
		return l.withoutStore(req)
	}
	return decisionOf(out)
}

// neverPasses refuses what no waiting would help, without asking the store.
func (l *Limiter) neverPasses(charges []Charge) (Decision, bool) {
	refused := func(i int, why Reason) (Decision, bool) {
		return Decision{Reason: why, Deciding: i, NowMicros: l.clock.micros()}, true
	}
	for i := range charges {
		if charges[i].Numbers.Blocked() {
			return refused(i, ReasonBlocked)
		}
	}
	for i := range charges {
		if charges[i].Cost > charges[i].Numbers.Burst {
			return refused(i, ReasonCostExceedsBurst)
		}
	}
	return Decision{}, false
}

func (l *Limiter) ask(ctx context.Context, draw *Draw) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Budget)
	defer cancel()
	out, err := l.cfg.Store.Take(ctx, draw)
	if err != nil {
		return Outcome{}, err
	}
	return out, out.check(len(draw.Charges))
}

// check finds answers that contradict themselves: they are failures of the
// store, neither an admission nor a refusal.
func (o Outcome) check(charges int) error {
	if len(o.Levels) != charges {
		return fmt.Errorf("%w: %d levels for %d limits", ErrStore, len(o.Levels), charges)
	}
	waiting := false
	for _, level := range o.Levels {
		if level.Units < 0 || level.WaitMicros < 0 {
			return fmt.Errorf("%w: negative level", ErrStore)
		}
		waiting = waiting || level.WaitMicros > 0
	}
	if waiting == o.Admitted {
		return fmt.Errorf("%w: admitted %t with a wait %t", ErrStore, o.Admitted, waiting)
	}
	return nil
}

// record tells the breaker, unless the error says nothing about the store or
// nothing new: the charges cannot be counted, one row is broken, another request
// reports the same call, or the caller went away.
func (l *Limiter) record(ctx context.Context, generation uint64, err error) {
	if err != nil && (errors.Is(err, ErrCharges) || errors.Is(err, ErrRow) || errors.Is(err, ErrCombined) || errors.Is(ctx.Err(), context.Canceled)) {
		return
	}
	if l.breaker.record(generation, err == nil) {
		select {
		case l.opened <- struct{}{}:
		default:
		}
		l.notify()
	}
}

func decisionOf(out Outcome) Decision {
	d := Decision{Allowed: out.Admitted, Reason: ReasonAdmitted, Deciding: -1, Levels: out.Levels, NowMicros: out.NowMicros}
	if out.Admitted {
		return d
	}
	d.Reason = ReasonLimit
	for i, level := range out.Levels {
		if level.WaitMicros > d.RetryAfterMicros {
			d.Deciding, d.RetryAfterMicros = i, level.WaitMicros
		}
	}
	return d
}

// withoutStore decides by the route's fail mode. Anything but a spelled out
// open admits nothing.
func (l *Limiter) withoutStore(req Request) Decision {
	now := l.clock.micros()
	d := Decision{Reason: ReasonClosed, Degraded: true, Deciding: -1, NowMicros: now}
	if req.Fail.Mode != policy.FailOpen || req.Fail.Fallback == nil {
		return d
	}
	d.Reason = ReasonOpen
	if req.Fail.Fallback.Unlimited {
		d.Allowed = true
		return d
	}
	d.RetryAfterMicros, d.Allowed = l.fallback.take(now, req)
	if !d.Allowed {
		d.Reason = ReasonFallback
	}
	return d
}
