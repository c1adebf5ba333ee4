package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/usage/spool"
)

// EventReporter is a Reporter that also carries events to the ledger; *feed.Reporter
// is one.
type EventReporter interface {
	// ShipEvents sends a batch, and returns what is known of it and of its boot. It may be
	// called again with the same.
	ShipEvents(ctx context.Context, b *feed.EventBatch) (feed.Shipped, error)
}

const (
	// cutEvery is how often events are cut and sent.
	cutEvery = time.Second
	// shipAgain is after how long a batch that the ledger does not have is looked after.
	shipAgain = 5 * time.Second
	// shipAhead bounds the batches that are on their way, so that a long outage fills
	// neither Redis nor the time of those that wait.
	shipAhead = 256
	// shipTime bounds one round of sending, lastShip the last one.
	shipTime = 900 * time.Millisecond
	lastShip = 3 * time.Second
)

// eventShipment is what is known of the batches that were sent.
type eventShipment struct {
	g       *Gateway
	carrier EventReporter
	sent    map[*spool.Waiting]eventSending
	full    bool // the spool's, as last told
	failed  bool // the last round
}

type eventSending struct {
	at    time.Time
	entry string
}

// ledgerLoop cuts events once a second and sends them until the ledger has them. At the
// end it sends the last ones; what does not get through waits for the next start.
func (g *Gateway) ledgerLoop(ctx context.Context) error {
	s := g.cfg.Spool
	carrier, carries := g.cfg.Reporter.(EventReporter)
	if s == nil || !carries {
		<-ctx.Done()
		return ctx.Err()
	}
	sh := &eventShipment{g: g, carrier: carrier, sent: map[*spool.Waiting]eventSending{}}
	if t := s.Standing().Totals; t.Lost > 0 || t.Interrupted > 0 {
		g.cfg.Log.Warn("the spool was opened after a run that did not end in order", "interrupted", t.Interrupted, "unreadable", t.Lost)
	}
	ticker := time.NewTicker(cutEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			sh.report(s.Finish())
			sh.last()
			return ctx.Err()
		case <-ticker.C:
			sh.report(s.Cut(g.redisTime(g.cfg.Now()).Unix()))
			sh.round(ctx, shipTime)
		}
	}
}

// report logs when the spool takes nothing more, and when it does again.
func (sh *eventShipment) report(err error) {
	st := sh.g.cfg.Spool.Standing()
	full := st.Full || err != nil
	if full == sh.full {
		return
	}
	sh.full = full
	if full {
		sh.g.cfg.Log.Error("the spool takes nothing more: routes of motive quota are closed, others go unnoted",
			"bytes", st.Bytes, "limit", st.Limit, "waiting", st.Waiting, "error", err)
	} else {
		sh.g.cfg.Log.Warn("the spool takes usage again", "unnoted", st.Totals.Unnoted)
	}
	sh.g.ring()
}

// last sends everything that was not sent, within a few seconds.
func (sh *eventShipment) last() {
	for end := time.Now().Add(lastShip); time.Now().Before(end); {
		if !sh.round(context.Background(), time.Until(end)) || sh.allSent() {
			return
		}
	}
}

func (sh *eventShipment) allSent() bool {
	for _, w := range sh.g.cfg.Spool.Waiting() {
		if _, sent := sh.sent[w]; !sent {
			return false
		}
	}
	return true
}

// round sends what is due, the oldest first, and asks for each boot how far the ledger
// is. It reports whether Redis took all of it.
func (sh *eventShipment) round(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	asked := map[string]bool{}
	waiting := sh.g.cfg.Spool.Waiting()
	sh.forget(waiting)
	for _, w := range waiting[:min(len(waiting), shipAhead)] {
		before, again := sh.sent[w]
		due := !again || time.Since(before.at) >= shipAgain
		if !due && asked[w.Boot] {
			continue
		}
		asked[w.Boot] = true
		if err := sh.send(ctx, w, before.entry, due); err != nil {
			sh.tell(err)
			return false
		}
	}
	sh.tell(nil)
	return true
}

// tell logs when sending begins to fail, and when it works again.
func (sh *eventShipment) tell(err error) {
	if failed := err != nil; failed != sh.failed {
		sh.failed = failed
		sh.g.cfg.Log.Info("events for the ledger", "sent", !failed, "error", err)
	}
}

// send sends a batch, or only asks.
func (sh *eventShipment) send(ctx context.Context, w *spool.Waiting, entry string, due bool) error {
	s := sh.g.cfg.Spool
	b := &feed.EventBatch{Replica: sh.g.cfg.Identity.ID, Boot: w.Boot, First: w.First, Last: w.Last, Entry: entry}
	if due {
		var err error
		if b.Body, err = s.Body(w); errors.Is(err, spool.ErrForgotten) {
			return nil
		}
		if err != nil {
			sh.g.cfg.Log.Error("events are lost: the spool cannot be read", "boot", w.Boot, "first", w.First, "last", w.Last, "error", err)
			return nil
		}
	}
	known, err := sh.carrier.ShipEvents(ctx, b)
	if err == nil && due {
		sh.sent[w] = eventSending{time.Now(), known.Entry}
		s.Sent(w)
	}
	if !s.Committed(w.Boot, known.Committed) {
		sh.g.cfg.Log.Error("Redis says that the ledger has more than was sent: its mark is not believed", "boot", w.Boot, "mark", known.Committed)
	}
	return err
}

// forget drops what is known of batches that the ledger has.
func (sh *eventShipment) forget(waiting []*spool.Waiting) {
	if len(sh.sent) == 0 {
		return
	}
	still := make(map[*spool.Waiting]eventSending, len(sh.sent))
	for _, w := range waiting {
		if at, sent := sh.sent[w]; sent {
			still[w] = at
		}
	}
	sh.sent = still
}

// usageStanding is how the spool stands, for the heartbeat.
func (g *Gateway) usageStanding() *policy.UsageStanding {
	if g.cfg.Spool == nil {
		return nil
	}
	st := g.cfg.Spool.Standing()
	return &policy.UsageStanding{
		Through: st.Through, Committed: st.Committed, Waiting: st.Waiting, SpoolBytes: st.Bytes, SpoolLimit: st.Limit,
		Full: st.Full, Unnoted: st.Totals.Unnoted,
	}
}

// spooled adds the metrics of the spool.
func (m *metrics) spooled(s *spool.Spool) {
	if s == nil {
		return
	}
	for _, c := range []struct {
		name, help string
		read       func(spool.Standing) int64
	}{
		{"headgate_spool_bytes", "Bytes that the spool takes on the disk.", func(s spool.Standing) int64 { return s.Bytes }},
		{"headgate_spool_limit_bytes", "Bytes at which the spool is full.", func(s spool.Standing) int64 { return s.Limit }},
		{"headgate_spool_waiting_events", "Events that the ledger is not known to have.", func(s spool.Standing) int64 { return s.Waiting }},
		{"headgate_spool_through_seconds", "Unix second up to which what was admitted is cut into events.", func(s spool.Standing) int64 { return s.Through }},
		{"headgate_spool_committed_seconds", "The same, committed to the ledger.", func(s spool.Standing) int64 { return s.Committed }},
		{"headgate_spool_full", "1 while the spool takes nothing more.", func(s spool.Standing) int64 { return int64(one(s.Full)) }},
	} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: c.name, Help: c.help}, func() float64 { return float64(c.read(s.Standing())) }))
	}
	for _, c := range []struct {
		name, help string
		read       func(*spool.Totals) int64
	}{
		{"headgate_usage_noted_total", "Requests admitted with a note in the spool.", func(t *spool.Totals) int64 { return t.Noted }},
		{"headgate_usage_unnoted_total", "Requests and settlements that the ledger will not have: there was no room to note them.", func(t *spool.Totals) int64 { return t.Unnoted }},
		{"headgate_usage_uncounted_total", "Refusals that the ledger will not have: there was no room to tell of them.", func(t *spool.Totals) int64 { return t.Uncounted }},
		{"headgate_usage_interrupted_total", "Requests of earlier runs whose end nobody saw, found at the start.", func(t *spool.Totals) int64 { return t.Interrupted }},
		{"headgate_spool_unreadable_total", "Records and events of the spool that could not be read.", func(t *spool.Totals) int64 { return t.Lost }},
		{"headgate_spool_failures_total", "Reads, writes and syncs of the spool that failed.", func(t *spool.Totals) int64 { return t.Failures }},
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help}, func() float64 {
			t := s.Standing().Totals
			return float64(c.read(&t))
		}))
	}
}
