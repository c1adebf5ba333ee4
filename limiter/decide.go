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
//
// What cannot pass at all is refused first, then what the deny cache knows, then
// what slices can pay is taken from them; the store is asked for the rest.
func (l *Limiter) Decide(ctx context.Context, req Request) Decision {
	if len(req.Draw.Charges) == 0 && len(req.Draw.Slots) == 0 && len(req.Draw.Quotas) == 0 {
		return Decision{Allowed: true, Reason: ReasonAdmitted, Deciding: -1, NowMicros: l.StoreNow()}
	}
	if d, never := l.neverPasses(&req.Draw); never {
		return d
	}
	now := l.clock.micros()
	if d, refused := l.cachedRefusal(&req.Draw, now); refused {
		l.counts.cached.Add(1)
		return d
	}
	var paid payments
	if !req.Peek && l.payLocally(&req.Draw, now, &paid) { //nolint:contextcheck // a refill belongs to no request
		l.counts.local.Add(1)
		return Decision{
			Allowed: true, Reason: ReasonAdmitted, Deciding: -1,
			Levels: unknownLevels(len(req.Draw.Charges)), NowMicros: l.storeClock.micros(now),
		}
	}
	return l.decideByStore(ctx, req, now, paid)
}

// neverPasses refuses what no waiting would help, without asking the store.
func (l *Limiter) neverPasses(draw *Draw) (Decision, bool) {
	part, at, why := PartNone, -1, Reason("")
	worse := func(p Part, i int, blocked bool) {
		if part == PartNone || blocked && why != ReasonBlocked {
			part, at, why = p, i, ReasonCostExceedsBurst
			if blocked {
				why = ReasonBlocked
			}
		}
	}
	for i := range draw.Charges {
		if c := &draw.Charges[i]; !c.Shadow && c.never() {
			worse(PartCharge, i, c.Numbers.Blocked())
		}
	}
	for i := range draw.Slots {
		if s := &draw.Slots[i]; !s.Shadow && s.never() {
			worse(PartSlot, i, true)
		}
	}
	for i := range draw.Quotas {
		if q := &draw.Quotas[i]; !q.Shadow && q.never() {
			worse(PartQuota, i, q.Cap() <= 0)
		}
	}
	if part == PartNone {
		return Decision{}, false
	}
	return Decision{Reason: why, DecidingKind: part, Deciding: at, NowMicros: l.StoreNow(), Levels: unknownLevels(len(draw.Charges))}, true
}

func (c *Charge) never() bool { return c.Numbers.Blocked() || c.Cost > c.Numbers.Burst }
func (s *Slot) never() bool   { return s.Max < 1 }
func (q *Quota) never() bool  { return q.Cost > q.Cap() }

// Cap is how many units a period admits: the amount, or Most of a quota that is
// billed, or as many as can be counted.
func (q *Quota) Cap() int64 {
	switch {
	case !q.Bill:
		return q.Amount
	case q.Most > 0:
		return q.Most
	default:
		return policy.MaxUnits - 1
	}
}

// decideByStore asks for what is not paid yet.
func (l *Limiter) decideByStore(ctx context.Context, req Request, now int64, paid payments) Decision {
	generation, ask := l.breaker.allow()
	if !ask {
		paid.refund()
		return l.withoutStore(&req, l.incidents.latestCause())
	}
	mark := l.denied.mark()
	asked := l.prepare(&req, now, &paid)
	r, err := l.ask(ctx, asked.draw, now)
	if err != nil {
		return l.decideWithout(ctx, &req, &asked, &paid, &failure{generation, mark, r, err})
	}
	l.record(ctx, generation, nil)
	l.deliverClaims(&asked, r)
	d := asked.decision(&req, r.out)
	if req.Peek {
		return d
	}
	if !r.out.Admitted {
		paid.refund()
	}
	l.remember(&asked, &req, r, mark)
	return d
}

// reply is an answer of the store, and the local times about it, in µs.
type reply struct {
	out            Outcome
	sent, received int64
}

// ask takes the draw by value, so that only calls of the store allocate it. Sent is the
// local time; an earlier one is as good, for what depends on it errs on the safe side.
func (l *Limiter) ask(ctx context.Context, draw Draw, sent int64) (reply, error) {
	within, own := innerBudget(ctx, l.cfg.Budget)
	if own {
		defer within.end()
	}
	r := reply{sent: sent}
	out, err := l.cfg.Store.Take(within, &draw) //nolint:contextcheck // within hangs on ctx
	r.received = l.clock.micros()
	if err != nil {
		return r, err
	}
	if err := out.check(&draw); err != nil {
		return r, err
	}
	l.storeClock.reply(r.sent, r.received, out.NowMicros)
	r.out = out
	return r, nil
}

// check finds answers that contradict themselves: they are failures of the
// store, neither an admission nor a refusal.
func (o *Outcome) check(draw *Draw) error {
	if len(o.Levels) != len(draw.Charges) || len(o.Slots) != len(draw.Slots) || len(o.Quotas) != len(draw.Quotas) {
		return fmt.Errorf("%w: %d, %d and %d answers for %d limits, %d concurrency limits and %d quotas", ErrStore,
			len(o.Levels), len(o.Slots), len(o.Quotas), len(draw.Charges), len(draw.Slots), len(draw.Quotas))
	}
	refused := false
	for i := range o.Levels {
		level, c := &o.Levels[i], &draw.Charges[i]
		impossible := level.WaitMicros < 0 || level.Extra < 0 || level.Extra > c.Extra || level.Units > c.Numbers.Full()
		if impossible || o.Admitted && level.Units < 0 && !c.Shadow {
			return fmt.Errorf("%w: impossible level of limit %q", ErrStore, c.LimitID)
		}
		refused = refused || level.WaitMicros > 0 && !c.Shadow
	}
	for i := range o.Slots {
		refused = refused || o.Slots[i].Refused && !draw.Slots[i].Shadow
	}
	for i := range o.Quotas {
		if o.Quotas[i].Lost && !draw.Quotas[i].Recorded {
			return fmt.Errorf("%w: counter of quota %q lost although nobody records it", ErrStore, draw.Quotas[i].LimitID)
		}
		refused = refused || o.Quotas[i].Refused && !draw.Quotas[i].Shadow
	}
	if refused == o.Admitted {
		return fmt.Errorf("%w: admitted %t although a part refused: %t", ErrStore, o.Admitted, refused)
	}
	return nil
}

// record tells the breaker, unless the error says nothing about the store or
// nothing new: the charges cannot be counted, one row or shard is broken, another
// request reports the same call, or the caller went away.
func (l *Limiter) record(ctx context.Context, generation uint64, err error) {
	if err != nil && (silent(err) || errors.Is(ctx.Err(), context.Canceled)) {
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

func silent(err error) bool {
	for _, kind := range [...]error{ErrCharges, ErrRow, ErrShard, ErrCombined} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// withoutStore decides by the route's fail mode, and counts it.
func (l *Limiter) withoutStore(req *Request, cause string) Decision {
	d := l.byFailMode(req, cause)
	l.countDegraded(req, &d)
	return d
}

// byFailMode decides by the route's fail mode. Anything but a spelled out open
// admits nothing.
func (l *Limiter) byFailMode(req *Request, cause string) Decision {
	now := l.clock.micros()
	d := Decision{Reason: ReasonClosed, Degraded: true, Deciding: -1, NowMicros: now, Cause: cause, peeked: req.Peek}
	if req.Fail.Mode == policy.FailOpen && req.Fail.Fallback != nil {
		l.fallBack(req, now, &d)
	}
	return d
}

func (l *Limiter) countDegraded(req *Request, d *Decision) {
	if !req.Peek {
		l.incidents.count(d.NowMicros, req.Route, d.Cause, d.Allowed)
	}
}

func (l *Limiter) fallBack(req *Request, now int64, d *Decision) {
	d.Reason = ReasonOpen
	switch f := req.Fail.Fallback; {
	case f.Unlimited:
		d.Allowed = true
	case f.Share:
		d.RetryAfterMicros, d.Allowed = l.fallback.take(now, shares(req, l.cfg.Replicas()), req.Peek)
	default:
		d.RetryAfterMicros, d.Allowed = l.fallback.take(now, ownShare(req), req.Peek)
	}
	if !d.Allowed {
		d.Reason = ReasonFallback
	}
}
