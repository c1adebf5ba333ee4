package gateway

import (
	"context"
	"net/http"
	"strconv"
)

// settlement is what the upstream said of the cost of a request.
type settlement struct {
	told bool  // it said something that is a cost
	bad  bool  // it said something that is none
	cost int64 // actual
}

// readCost takes the settle header out of h. It is for us alone: what a request
// really cost is nothing that callers are told by chance.
func (s *settlement) readCost(h http.Header, name string) {
	lines := h.Values(name)
	if len(lines) == 0 {
		return
	}
	h.Del(name)
	if s.told || s.bad {
		return // the header of the answer counts, not a trailer after it
	}
	cost, ok := costIn(lines)
	s.told, s.bad, s.cost = ok, !ok, cost
}

// costIn reads one whole number in its plain decimal form.
func costIn(lines []string) (int64, bool) {
	if len(lines) != 1 {
		return 0, false
	}
	cost, err := strconv.ParseInt(lines[0], 10, 64)
	if err != nil || cost < 0 || cost > maxCost || strconv.FormatInt(cost, 10) != lines[0] {
		return 0, false
	}
	return cost, true
}

// settleHeader is the header in which the upstream tells the cost; "" on routes
// that do not settle.
func (v *Verdict) settleHeader() string {
	if v.Route == nil || v.Route.Route == nil {
		return ""
	}
	return v.Route.Route.SettleHeader
}

// settleExchange corrects the reserved cost when the request is over. Without a
// word of the upstream's what was reserved stays charged.
func (g *Gateway) settleExchange(x *exchange) {
	v := &x.verdict
	switch s := &x.settlement; {
	case v.spent == nil:
	case s.bad:
		g.metrics.settles.WithLabelValues("malformed").Inc()
	case !s.told:
		g.metrics.settles.WithLabelValues("missing").Inc()
	default:
		// The caller's leaving must not keep the cost of what it got from being charged.
		// It is said once, so the store need not remember it by a name.
		g.noteCost(g.entryOf(v), s.cost-v.reserve)
		_ = g.settle(context.Background(), &charged{ref: v.recorded.ref, at: v.recorded.at, spent: v.spent, reserve: v.reserve}, s.cost) // counted there
	}
}
