package gateway

import (
	"context"
	"crypto/rand"

	"github.com/headgate/headgate/limiter"
)

// keep notes what an admitted request holds and what may be corrected: at a door
// that sees the end the leases are renewed until Verdict.End, elsewhere the
// answer carries a token for both.
func (g *Gateway) keep(in *Inbound, d *drawing, answer *limiter.Decision, v *Verdict) {
	if !answer.Allowed || in.Peek {
		return
	}
	if v.leases = answer.Leases; len(v.leases) > 0 {
		v.release = g.releaseNow
	}
	if v.Route.Route.SettleHeader != "" && !answer.Degraded {
		spent := answer.Spent(&d.draw)
		v.spent, v.reserve, v.settleID = &spent, v.Cost, rand.Text()
	}
	if in.Replay != nil { // Kept has it
		return
	}
	v.refer()
	if !in.Ends {
		v.Lease = g.seal(v, answer.NowMicros)
		return
	}
	if len(v.leases) > 0 {
		v.hold = g.limiter.Hold(v.leases)
	}
}

// End says that the request is over, however it ended: what it held is free
// again. Calls after the first do nothing.
func (v *Verdict) End() {
	hold, leases := v.hold, v.leases
	v.hold, v.leases, v.Lease = nil, nil, ""
	switch {
	case hold != nil:
		hold.Release()
	case len(leases) > 0:
		v.release(leases)
	}
}

// releaseNow ends leases that no token will end. What fails is left to their
// expiry.
func (g *Gateway) releaseNow(leases []limiter.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.Budget)
	defer cancel()
	if err := g.limiter.ReleaseLeases(ctx, leases); err != nil {
		g.metrics.releases.WithLabelValues("failed").Inc()
	}
}
