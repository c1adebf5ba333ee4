package gateway

import (
	"context"
	"os"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

const (
	beatEvery = 2 * time.Second
	// beatGap is the shortest time between two heartbeats.
	beatGap = 50 * time.Millisecond
	// reportTimeout bounds one heartbeat or one batch of counts.
	reportTimeout = time.Second
	// consoleTimeout bounds one heartbeat to the console.
	consoleTimeout = 3 * time.Second
	// maxBatches bounds the counts kept while Redis is away: ten minutes.
	maxBatches = 600
)

// beatLoop sends a heartbeat every 2 s and at each change.
func (g *Gateway) beatLoop(ctx context.Context) error {
	before, at := g.tally.totals(), time.Now()
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	rates := policy.Heartbeat{}
	for {
		if elapsed := time.Since(at); elapsed >= time.Second {
			now := g.tally.totals()
			rates = ratesOf(before, now, elapsed)
			before, at = now, time.Now()
		}
		g.beat(ctx, g.heartbeat(rates))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(beatGap):
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-g.nudge:
		case <-g.cfg.Changes:
		}
	}
}

func ratesOf(before, now totals, elapsed time.Duration) policy.Heartbeat {
	per := func(n int64) float64 { return float64(n) / elapsed.Seconds() }
	return policy.Heartbeat{
		DecisionsPerS: per(now.decisions - before.decisions),
		RefusedPerS:   per(now.refused - before.refused),
		FallbackPerS:  per(now.fallback - before.fallback),
	}
}

// beat sends one heartbeat and learns Redis' time from it.
func (g *Gateway) beat(ctx context.Context, b policy.Heartbeat) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	sent := g.cfg.Now()
	live, redisNow, err := g.cfg.Reporter.Beat(ctx, b)
	back := g.cfg.Now()
	was := g.reached.Swap(err == nil)
	if first := !g.tried.Swap(true); first || was != (err == nil) {
		g.cfg.Log.Info("heartbeat", "reached_redis", err == nil)
	}
	if err != nil {
		g.beatConsole(b)
		return
	}
	g.setLive(live)
	g.roundTrip.Store(back.Sub(sent).Microseconds())
	if !redisNow.IsZero() {
		g.clockOffset.Store(int64(sent.Add(back.Sub(sent) / 2).Sub(redisNow)))
	}
}

// beatConsole has a heartbeat brought to the console because Redis is away. It
// does not wait: the newest that could not be brought yet goes first.
func (g *Gateway) beatConsole(b policy.Heartbeat) {
	if g.cfg.Console == nil {
		return
	}
	select {
	case <-g.consoleBeats: // an older one
	default:
	}
	select {
	case g.consoleBeats <- b:
	default:
	}
}

// consoleLoop brings heartbeats to the console, one at a time. One that fails is
// not repeated: the next one is newer.
func (g *Gateway) consoleLoop(ctx context.Context) error {
	reached, ever := false, false
	for {
		var b policy.Heartbeat
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b = <-g.consoleBeats:
		}
		ask, cancel := context.WithTimeout(ctx, consoleTimeout)
		live, err := g.cfg.Console.Beat(ask, b)
		cancel()
		if ok := err == nil; (ok != reached || !ever) && ctx.Err() == nil {
			g.cfg.Log.Info("heartbeat by way of the console", "reached_console", ok, "error", err)
			reached, ever = ok, true
		}
		if err == nil && live > 0 {
			g.setLive(live)
		}
	}
}

// heartbeat says what the replica enforces and how it fares.
func (g *Gateway) heartbeat(rates policy.Heartbeat) policy.Heartbeat {
	status := g.cfg.Policies.Status()
	b := rates
	b.ID, b.Boot = g.cfg.Identity.ID, g.cfg.Identity.Boot
	b.Host, _ = os.Hostname()
	b.Zone, b.Build, b.Started = g.cfg.Zone, g.cfg.Build, g.started.UTC()
	b.NACK, b.Unsaved = status.NACK, status.Unsaved
	total := g.tally.totals()
	b.Decisions, b.Refused = total.decisions, total.refused
	// All of one moment: what is said to be saved must be what is in force.
	b.Digest, b.Version, b.Since = status.Digest, status.Version, status.Since
	b.Directory = g.cfg.Directory.Place()
	b.Mode, b.Breaker, b.Cause = g.mode(), g.limiter.BreakerState(), g.degradedBy()
	b.LeasesHeld = g.limiter.LeasesHeld()
	b.RedisRTTMicros = g.roundTrip.Load()
	b.ClockOffsetMS = time.Duration(g.clockOffset.Load()).Milliseconds()
	b.StampAgeMS = -1
	if status.StampAge >= 0 {
		b.StampAgeMS = status.StampAge.Milliseconds()
	}
	b.ProxyAddr, b.ReceiptKey = g.bound.Proxy, g.receipts.publicKey()
	b.Usage = g.usageStanding()
	return b
}

// usageLoop ships the counts of the seconds that have passed and logs what was
// refused, once a second. Batches that did not get through wait, in order.
func (g *Gateway) usageLoop(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var waiting []usage.Batch
	for {
		select {
		case <-ctx.Done():
			g.ship(context.WithoutCancel(ctx), append(waiting, g.counter.CutLast(g.cfg.Now().Add(time.Second))))
			return ctx.Err()
		case <-ticker.C:
			g.tally.summary(g.cfg.Log)
			waiting = g.ship(ctx, append(waiting, g.counter.Cut(g.cfg.Now())))
		}
	}
}

// ship sends batches in order and returns those that did not get through, the
// newest maxBatches of them.
func (g *Gateway) ship(ctx context.Context, batches []usage.Batch) []usage.Batch {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	for len(batches) > 0 {
		if err := g.cfg.Reporter.SendUsage(ctx, batches[0]); err != nil {
			break
		}
		batches = batches[1:]
	}
	if extra := len(batches) - maxBatches; extra > 0 {
		batches = batches[extra:]
	}
	return batches
}
