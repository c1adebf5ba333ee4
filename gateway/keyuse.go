package gateway

import (
	"context"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/usage"
)

// KeyUseReporter is a Reporter that also carries who uses which key; *feed.Reporter is
// one.
type KeyUseReporter interface {
	// SendKeyUse sends a batch as usage.EncodeKeys wrote it. It may be called again
	// with the same after an error.
	SendKeyUse(ctx context.Context, b *usage.KeyBatch, body []byte) error
}

const (
	// keyUseEvery is how often it is told who uses which key. A minute is promised.
	keyUseEvery = 5 * time.Second
	// keyUseGap is the shortest time between two attempts.
	keyUseGap = 250 * time.Millisecond
	// waitingKeyUse bounds the batches that wait while Redis is away, in bytes. Beyond
	// it, sources that there is no room for are counted into their keys' rest.
	waitingKeyUse = 8 << 20
)

// newKeyUse is nil where nobody would carry it.
func newKeyUse(cfg *Config, m *metrics) *usage.KeyCounter {
	if _, carries := cfg.Reporter.(KeyUseReporter); !carries {
		return nil
	}
	c := usage.NewKeyCounter(cfg.Identity.ID, cfg.Identity.Boot)
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_key_sources", Help: "Sources of keys (key, network, product) that are told apart at the moment.",
	}, func() float64 { n, _ := c.Totals(); return float64(n) }))
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "headgate_key_uses_lost_total", Help: "Requests with a key that there was no room to note: the console says so.",
	}, func() float64 { _, n := c.Totals(); return float64(n) }))
	return c
}

// keyStanding is how a key that was presented stands.
type keyStanding int

const (
	keyWrong    keyStanding = iota // not known, or not its secret
	keyStopped                     // revoked, expired, suspended
	keyBrownout                    // retiring, and not accepted from there for a moment
	keyAccepted
)

// standing tells how a key stands that was presented from an address. The digests are
// compared whatever else is wrong, so that every refusal costs the same.
func (g *Gateway) standing(r *policy.KeyRecord, parsed apikey.Parsed, key string, from netip.Addr, now time.Time) keyStanding {
	digest := r.Digest
	if digest == "" {
		digest = apikey.DummyDigest
	}
	if same := apikey.Equal(digest, key); !same || r.Digest == "" || r.KID != parsed.KID || r.Environment != parsed.Environment {
		return keyWrong
	}
	now = g.redisTime(now)
	switch {
	case r.State != policy.KeyActive && r.State != policy.KeyRetiring, r.NotAfter != nil && !now.Before(*r.NotAfter):
		return keyStopped
	case r.State == policy.KeyRetiring && stops(r.Brownout, from, now):
		return keyBrownout
	}
	return keyAccepted
}

// stops reports whether a brown-out concerns an address now. A network that cannot be
// read concerns nobody: what is not understood must not refuse.
func stops(b *policy.Brownout, from netip.Addr, now time.Time) bool {
	if b == nil || now.Before(b.From) || !now.Before(b.Until) || now.Sub(b.From) >= policy.MaxBrownout {
		return false
	}
	if b.Network == "" {
		return true
	}
	network, err := netip.ParsePrefix(b.Network)
	return err == nil && network.Contains(plain(from))
}

// countKey notes who presented which key: one whose secret was right, whether it was
// accepted or not. With a wrong secret it is nobody's use, or strangers could move
// what is known of it.
func (g *Gateway) countKey(in *Inbound, v *Verdict, now time.Time) {
	if g.keyUse == nil || v.kid == "" || v.Peeked || in.Replay != nil {
		return
	}
	agent := ""
	if sent := in.Header["User-Agent"]; len(sent) > 0 {
		agent = sent[0]
	}
	outcome := usage.KeyAdmitted
	switch {
	case v.keyRefused:
		outcome = usage.KeyRefused
	case !v.Allowed:
		outcome = usage.KeyLimited
	}
	g.keyUse.Add(g.redisTime(now), v.kid, v.Client, agent, outcome)
}

// keyCargo is batches of key uses on their way, the oldest first.
type keyCargo struct {
	batches []keyShipment
	bytes   int
}

type keyShipment struct {
	batch usage.KeyBatch // without its rows
	body  []byte
}

// keyUseLoop tells who uses which key, every few seconds and sooner when there are
// many.
func (g *Gateway) keyUseLoop(ctx context.Context) error {
	if g.keyUse == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	ticker := time.NewTicker(keyUseEvery)
	defer ticker.Stop()
	var waiting keyCargo
	for {
		crowded := false
		select {
		case <-ctx.Done():
			g.cutKeyUse(&waiting, true)
			g.shipKeyUse(context.WithoutCancel(ctx), &waiting)
			return ctx.Err()
		case <-ticker.C:
		case <-g.keyUse.Crowded():
			crowded = true
		}
		// The clock is corrected by Redis': without a heartbeat nobody knows by how much,
		// and what is not cut goes on being counted.
		if g.reached.Load() && len(waiting.batches) == 0 || crowded && waiting.bytes < waitingKeyUse {
			g.cutKeyUse(&waiting, false)
		}
		g.shipKeyUse(ctx, &waiting)
		select {
		case <-ctx.Done():
		case <-time.After(keyUseGap):
		}
	}
}

// cutKeyUse puts what was counted among what waits.
func (g *Gateway) cutKeyUse(waiting *keyCargo, final bool) {
	for _, b := range g.keyUse.Cut(g.redisTime(g.started), g.redisTime(g.cfg.Now()), final) {
		body, err := usage.EncodeKeys(&b)
		if err != nil { // its number is missing: the console takes it for lost
			g.cfg.Log.Error("a batch of key uses cannot be told", "error", err.Error())
			continue
		}
		b.Rows = nil
		waiting.batches, waiting.bytes = append(waiting.batches, keyShipment{b, body}), waiting.bytes+len(body)
	}
}

// shipKeyUse sends what waits, in order. What does not get through waits on.
func (g *Gateway) shipKeyUse(ctx context.Context, waiting *keyCargo) {
	to := g.cfg.Reporter.(KeyUseReporter)
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	for len(waiting.batches) > 0 {
		first := &waiting.batches[0]
		if err := to.SendKeyUse(ctx, &first.batch, first.body); err != nil {
			return
		}
		waiting.bytes -= len(first.body)
		waiting.batches = waiting.batches[1:]
	}
	waiting.batches = nil
}
