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
	start := g.cfg.Now()
	g.metrics.received.Inc()
	v := Verdict{Deciding: -1, RequestID: in.RequestID, Status: http.StatusOK}
	g.judge(context.WithoutCancel(ctx), in, &v)
	v.Aborted = ctx.Err() != nil
	g.account(&v, start)
	return v
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
	if in.Method, ok = canonicalMethod(in.Method); !ok || asksForTunnel(in.Header) {
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
	var plan []policy.CompiledLimit
	if v.Route.Route.Identity != policy.IdentityIP {
		if plan, ok = g.admitIdentity(ctx, in, v); !ok {
			return
		}
	}
	g.ask(ctx, draw(v.Policy.Compiled, v.Route, plan, v), v)
}

// locate finds the canonical path, the caller's address and the route.
func (g *Gateway) locate(in *Inbound, v *Verdict) bool {
	rules := v.Policy.Compiled.Document.ClientIP
	if v.Client = in.Client; !in.ClientKnown {
		v.Client = clientAddress(in.Peer, in.Header, rules, in.PeerTrusted)
	}
	v.Subject = subjectOf(v.Client, rules.IPv6Prefix)
	path, err := policy.CanonicalPath(in.EscapedPath)
	if err != nil {
		v.refuse(CodeAmbiguousPath, usage.OutcomeInvalid)
		return false
	}
	v.Path = path
	method := in.Method
	if isPreflight(method, in.Header) { // it belongs to the route that it asks for
		method = strings.ToUpper(in.Header.Get("Access-Control-Request-Method"))
	}
	route, ok := v.Policy.Compiled.Match(method, in.Host, path)
	if !ok {
		v.refuse(CodeNoRoute, usage.OutcomeNoRoute)
		return false
	}
	v.Route = route
	if v.Cost = route.Cost; in.Cost > 0 {
		v.Cost = in.Cost
	}
	return true
}

// admitIdentity verifies the caller and finds its plan's limits.
func (g *Gateway) admitIdentity(ctx context.Context, in *Inbound, v *Verdict) ([]policy.CompiledLimit, bool) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Budget) // both lookups together
	defer cancel()
	tenant, ok := g.identify(ctx, in, v)
	if !ok {
		return nil, false
	}
	plan, known := v.Policy.Compiled.Plans[tenant.Plan]
	if !known {
		g.reportPlan(tenant.Plan)
		v.RetryAfterSecs = g.jitter()
		v.refuse(CodePlanUnknown, usage.OutcomeUnavailable)
		return nil, false
	}
	return plan, true
}

// ask puts the charges to the limiter and reads its decision.
func (g *Gateway) ask(ctx context.Context, d drawn, v *Verdict) {
	subject := v.Tenant
	if subject == "" {
		subject = v.Subject
	}
	answer := g.limiter.Decide(ctx, limiter.Request{
		Route: v.Route.Name, Draw: limiter.Draw{Charges: d.charges}, Fail: v.Route.Route.OnStoreFailure, Identity: subject, Cost: v.Cost,
	})
	v.Reason, v.Degraded, v.Deciding = answer.Reason, answer.Degraded, answer.Deciding
	if !answer.Degraded {
		v.Limits = d.states(answer.Levels)
	}
	v.Bare = v.abuse()
	switch answer.Reason {
	case limiter.ReasonAdmitted:
		v.Allowed, v.Outcome = true, usage.OutcomeAdmitted
	case limiter.ReasonOpen:
		v.Allowed, v.Outcome = true, usage.OutcomeFallbackAdmitted
	case limiter.ReasonLimit:
		v.RetryAfterMicros = answer.RetryAfterMicros
		v.refuse(CodeQuotaExceeded, usage.OutcomeLimited)
	case limiter.ReasonBlocked:
		v.Limits, v.Deciding = d.blocked(), 0
		v.refuse(CodeQuotaExceeded, usage.OutcomeBlocked)
	case limiter.ReasonFallback: // without a wait, the fallback can never pay: the outage has to end
		v.RetryAfterMicros, v.RetryAfterSecs = answer.RetryAfterMicros, g.jitter()
		v.refuse(CodeQuotaExceeded, usage.OutcomeFallbackRefused)
	case limiter.ReasonCostExceedsBurst:
		v.Bare = false
		v.refuse(CodeCostExceedsBurst, usage.OutcomeInvalid)
	default:
		v.Bare = false
		v.RetryAfterSecs = g.jitter()
		v.refuse(CodeReducedCapacity, usage.OutcomeClosed)
	}
	if v.Allowed != answer.Allowed { // an answer that contradicts itself admits nothing
		v.RetryAfterSecs = g.jitter()
		v.refuse(CodeReducedCapacity, usage.OutcomeClosed)
	}
}

// account books the verdict: exactly one class, one count for the console.
func (g *Gateway) account(v *Verdict, start time.Time) {
	now := g.cfg.Now()
	g.metrics.decided(v, now.Sub(start))
	g.tally.add(v)
	if v.Aborted || v.Free {
		return
	}
	limit := ""
	if !v.Allowed && v.Deciding >= 0 && v.Deciding < len(v.Limits) {
		limit = v.Limits[v.Deciding].Limit.ID
	}
	g.counter.Add(now, v.Tenant, v.routeName(), v.Outcome, limit, v.Cost)
}
