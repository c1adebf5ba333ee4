package gateway

import (
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/usage/spool"
)

// unnotable is told to callers of routes that admit nothing that cannot be billed.
const unnotable = "Usage of this route is billed, and there is no room to note it at the moment. Try again later."

// note writes down what was decided, before the request is forwarded or the answer is
// told: at a door that sees the end an intent, which exchange.noted ends, elsewhere the
// outcome itself. What was not admitted is counted.
func (g *Gateway) note(in *Inbound, v *Verdict) {
	s := g.cfg.Spool
	if s == nil || v.Peeked || in.Replay != nil {
		return
	}
	e := g.entryOf(v)
	switch {
	case v.Aborted:
		s.Count(&e, ledger.OutcomeAborted)
		return
	case !v.Allowed || v.Free:
		s.Count(&e, v.Outcome)
		return
	}
	var err error
	if in.Ends {
		if v.ticket = in.ticket; v.ticket == nil {
			v.ticket = &spool.Ticket{}
		}
		err = s.Begin(v.ticket, &e)
	} else {
		err = s.Note(&e, v.Outcome)
	}
	if err == nil {
		return
	}
	v.ticket = nil
	if !v.billed() {
		s.Unnoted()
		return
	}
	v.End()
	g.refuseUnnoted(v)
	s.Count(&e, v.Outcome)
}

// entryOf is what is noted of a request. Its second is the one by which the quota's
// period was chosen.
func (g *Gateway) entryOf(v *Verdict) spool.Entry {
	e := spool.Entry{Tenant: v.Tenant, KID: v.kid, Route: v.routeName()}
	if v.drawn != nil && v.drawn.now > 0 {
		e.Second = v.drawn.now / 1e6
	} else {
		e.Second = g.redisTime(g.cfg.Now()).Unix()
	}
	if v.Allowed && !v.Free && !v.Aborted {
		e.Cost = v.Cost
	}
	return e
}

// billed reports whether nothing of the route may go unnoted.
func (v *Verdict) billed() bool {
	return v.Route != nil && v.Route.Route != nil && v.Route.Route.Motive == policy.MotiveQuota
}

// noRoom refuses a request that could not be noted before it is charged.
func (g *Gateway) noRoom(v *Verdict) bool {
	if g.cfg.Spool == nil || !v.billed() || !g.cfg.Spool.Full() {
		return false
	}
	g.refuseUnnoted(v)
	return true
}

func (g *Gateway) refuseUnnoted(v *Verdict) {
	v.Detail, v.RetryAfterMicros, v.RetryAfterSecs = unnotable, 0, g.jitter()
	v.refuse(CodeReducedCapacity, usage.OutcomeClosed)
}

// noted ends the intent of a request whose answer is known: what was forwarded counts,
// whatever came of it. Only the first call does anything.
func (g *Gateway) noted(x *exchange) {
	if x.verdict.ticket != nil && !x.ended.Swap(true) {
		g.cfg.Spool.End(x.verdict.ticket, x.verdict.Outcome)
	}
}

// noteCost notes that a request cost that much more than was noted, or less.
func (g *Gateway) noteCost(e spool.Entry, delta int64) {
	if g.cfg.Spool == nil || delta == 0 {
		return
	}
	e.Cost = delta
	if err := g.cfg.Spool.Settle(&e); err != nil {
		g.cfg.Spool.Unnoted()
	}
}

// tokenNoted is what a token says of a note, for whoever settles it, on any replica.
func (g *Gateway) tokenNoted(v *Verdict) *tokenNoted {
	if g.cfg.Spool == nil {
		return nil
	}
	e := g.entryOf(v)
	return &tokenNoted{e.Second, e.Tenant, e.KID, e.Route}
}

// noteSettlement notes what came of a token.
func (g *Gateway) noteSettlement(n *tokenNoted, delta int64) {
	if n != nil {
		g.noteCost(spool.Entry{Second: n.Second, Tenant: n.Tenant, KID: n.KID, Route: n.Route}, delta)
	}
}

// recordsUsage reports whether what is admitted here comes into the ledger.
func (g *Gateway) recordsUsage() bool { return g.cfg.Spool != nil }
