package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// decide is the one way to an answer. Every door calls it once per request.
//
// The caller's own cancellation does not reach the store and the directory: a
// caller that hangs up must not look like a broken Redis to the breaker. Both keep
// to their own time budgets instead.
func (g *Gateway) decide(ctx context.Context, in *Inbound) Verdict {
	var v Verdict
	g.decideInto(ctx, in, &v)
	return v
}

func (g *Gateway) decideInto(ctx context.Context, in *Inbound, v *Verdict) {
	start := g.cfg.Now()
	g.metrics.received.Inc()
	*v = Verdict{Deciding: -1, RequestID: in.RequestID, Status: http.StatusOK, Peeked: in.Peek, room: v.room}
	g.judgeWithin(context.Background(), in, v) //nolint:contextcheck // see above; nothing below reads values of it
	// A body that breaks off ends the context as well; its caller may still be there.
	if v.Aborted = ctx.Err() != nil && v.Code != CodeBadRequest; v.Aborted {
		v.End() //nolint:contextcheck // what is held has to be given back when the caller has left
	}
	g.addReceipt(v)
	g.note(in, v) //nolint:contextcheck // as above
	g.account(in, v, start)
	g.record(in, v)
}

// judgeWithin is judge within the door's own time budget.
func (g *Gateway) judgeWithin(ctx context.Context, in *Inbound, v *Verdict) {
	if in.Budget > 0 {
		within, end := limiter.WithBudget(ctx, in.Budget)
		defer end()
		ctx = within
	}
	g.judge(ctx, in, v)
}

// judge runs the layers, cheapest first, on one snapshot of the policy.
func (g *Gateway) judge(ctx context.Context, in *Inbound, v *Verdict) {
	v.Policy = g.cfg.Policies.Current()
	if v.RequestID == "" {
		trusted := v.Policy != nil && (in.PeerTrusted || trusts(v.Policy.Compiled.Document.ClientIP, plain(in.Peer)))
		v.RequestID = requestID(in.Header, trusted)
	}
	if v.Policy == nil {
		v.RetryAfterSecs = g.jitter()
		v.refuse(CodeNoPolicy, usage.OutcomeUnavailable)
		return
	}
	var ok bool
	if in.Method, ok = canonicalMethod(in.Method); !ok || !plainHost(in.Host) || asksForTunnel(in.Header) {
		v.refuse(CodeBadRequest, usage.OutcomeInvalid)
		return
	}
	if !g.locate(in, v) {
		return
	}
	if isPreflight(in.Method, in.Header) {
		v.Allowed, v.Free, v.Outcome = true, true, usage.OutcomeAdmitted
		return
	}
	var c caller
	switch v.Route.Route.Identity {
	case policy.IdentityIP:
	case policy.IdentityUser:
		ok = g.admitUser(in, v, &c)
	default:
		ok = g.admitIdentity(ctx, in, v, &c)
	}
	if !ok || !g.price(in, v) {
		return
	}
	if g.noRoom(v) {
		return
	}
	v.hits = min(max(in.Hits, 1), maxCost)
	v.Cost = times(v.Cost, v.hits)
	g.ask(ctx, in, g.drawing(in, v, &c), v)
}

// times is a×b for positive numbers, or what no limit can ever hold.
func times(a, b int64) int64 {
	if a > maxCost/b {
		return maxCost
	}
	return a * b
}

// locate finds the canonical path, the caller's address and the route.
func (g *Gateway) locate(in *Inbound, v *Verdict) bool {
	rules := v.Policy.Compiled.Document.ClientIP
	if v.Client = in.Client; !in.ClientKnown {
		v.Client = clientAddress(in.Peer, in.Header, rules, in.PeerTrusted)
	}
	v.Subject = subjectOf(v.Client, rules.IPv6Prefix)
	if in.RouteName != "" {
		return g.locateByName(in, v)
	}
	path, err := policy.CanonicalPath(in.EscapedPath)
	if err != nil {
		v.refuse(CodeAmbiguousPath, usage.OutcomeInvalid)
		return false
	}
	v.Path = path
	route, catchAll := v.Policy.Compiled.MatchKind(in.asked(), in.Host, path)
	if v.astray = route == nil || catchAll; route == nil {
		v.refuse(CodeNoRoute, usage.OutcomeNoRoute)
		return false
	}
	v.Route, v.Cost = route, route.Cost
	return true
}

// asked is the method by which the route is found: a preflight belongs to the route
// that it asks for.
func (in *Inbound) asked() string {
	if isPreflight(in.Method, in.Header) {
		return strings.ToUpper(in.Header.Get("Access-Control-Request-Method"))
	}
	return in.Method
}

// locateByName finds the route that a trusted caller names.
func (g *Gateway) locateByName(in *Inbound, v *Verdict) bool {
	route := g.viewOf(v.Policy.Compiled).named[in.RouteName]
	if route == nil {
		v.refuse(CodeNoRoute, usage.OutcomeNoRoute)
		return false
	}
	v.Route, v.Cost = route, route.Cost
	return true
}

// admitIdentity verifies the caller and finds its plan and its own terms.
func (g *Gateway) admitIdentity(ctx context.Context, in *Inbound, v *Verdict, c *caller) bool {
	ctx, end := limiter.WithBudget(ctx, g.cfg.Budget) // both lookups together
	defer end()
	tenant, ok := g.identify(ctx, in, v)
	if !ok {
		return false
	}
	plan, known := v.Policy.Compiled.Plans[tenant.Plan]
	if !known {
		g.reportPlan(tenant.Plan)
		v.RetryAfterSecs = g.jitter()
		v.refuse(CodePlanUnknown, usage.OutcomeUnavailable)
		return false
	}
	c.plan, c.quota, c.terms = plan, v.Policy.Compiled.Quotas[tenant.Plan], g.terms.of(&tenant)
	return true
}

// ask puts what the request draws from to the limiter and reads its decision.
func (g *Gateway) ask(ctx context.Context, in *Inbound, d *drawing, v *Verdict) {
	if why, limits := d.hopeless(); why != "" {
		v.Reason, v.Limits, v.Bare = why, limits, v.abuse()
		v.recorded.at = d.now
		v.refuseFor(why, g)
		return
	}
	view := g.viewOf(v.Policy.Compiled)
	answer := g.limiter.Decide(ctx, limiter.Request{
		Route: v.Route.Name, Draw: d.draw, Fail: v.Route.Route.OnStoreFailure, Identity: v.identity(), Cost: v.Cost,
		Expected: v.Policy.Compiled.Document.ReplicasExpected, Settles: view.settles, Peek: in.Peek,
	})
	v.Reason, v.Degraded, v.Cached, v.Cause = answer.Reason, answer.Degraded, answer.Cached, answer.Cause
	v.RetryAfterMicros = answer.RetryAfterMicros
	v.decidedAt(&answer, g)
	v.Bare = v.abuse()
	v.grounds.take(&answer)
	if !answer.Degraded {
		d.tell(&answer)
		d.sort(v, &answer)
	}
	if g.keep(in, d, &answer, v); answer.Allowed && v.admitFor(answer.Reason) {
		return
	}
	// An answer that contradicts itself admits nothing, and holds nothing.
	v.End() //nolint:contextcheck // what is held has to be given back when the caller has left
	v.refuseFor(answer.Reason, g)
}

// admitFor admits for a reason that admits.
func (v *Verdict) admitFor(why limiter.Reason) bool {
	switch why {
	case limiter.ReasonAdmitted:
		v.Allowed, v.Outcome = true, usage.OutcomeAdmitted
	case limiter.ReasonOpen:
		v.Allowed, v.Outcome = true, usage.OutcomeFallbackAdmitted
	default:
	}
	return v.Allowed
}

// refuseFor turns the verdict into the refusal that belongs to a reason. Anything
// that is no reason to refuse is a fault, and closes.
func (v *Verdict) refuseFor(why limiter.Reason, g *Gateway) {
	switch why {
	case limiter.ReasonLimit, limiter.ReasonConcurrency, limiter.ReasonQuota:
		v.refuse(CodeQuotaExceeded, usage.OutcomeLimited)
	case limiter.ReasonBlocked:
		v.Deciding, v.RetryAfterMicros = 0, 0
		v.refuse(CodeQuotaExceeded, usage.OutcomeBlocked)
	case limiter.ReasonFallback: // without a wait, the fallback can never pay: the outage has to end
		v.RetryAfterSecs = g.jitter()
		v.refuse(CodeQuotaExceeded, usage.OutcomeFallbackRefused)
	case limiter.ReasonCostExceedsBurst:
		v.Bare = false
		v.refuse(CodeCostExceedsBurst, usage.OutcomeInvalid)
	default:
		v.Bare, v.RetryAfterMicros = false, 0
		v.RetryAfterSecs = g.jitter()
		v.refuse(CodeReducedCapacity, usage.OutcomeClosed)
	}
}

// identity is the subject of the fallback: whoever is being charged.
func (v *Verdict) identity() string {
	switch {
	case v.Tenant != "":
		return v.Tenant
	case v.User != "":
		return "user:" + v.User // no tenant's id and no address holds a colon so
	}
	return v.Subject
}

// account books the verdict: exactly one class, one count for the console.
func (g *Gateway) account(in *Inbound, v *Verdict, start time.Time) {
	now := g.cfg.Now()
	g.metrics.decided(v, now.Sub(start))
	g.tally.add(v)
	g.countKey(in, v, now)
	g.countRefused(in, v, now)
	if v.Aborted || v.Free || v.Peeked {
		return
	}
	limit := ""
	if !v.Allowed && v.Deciding >= 0 && v.Deciding < len(v.Limits) {
		limit = v.Limits[v.Deciding].ID
	}
	g.counter.AddDecision(now, v.Tenant, v.routeName(), v.Outcome, limit, v.Cost, now.Sub(start))
	if v.astray {
		g.counter.AddPath(now, in.asked(), v.Path, v.routeName())
	}
}
