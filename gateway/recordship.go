package gateway

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/headgate/headgate/decisionlog"
)

// DecisionReporter is a Reporter that also carries the decision log; *feed.Reporter is
// one.
type DecisionReporter interface {
	// SendDecisions sends a batch as decisionlog.Encode wrote it. It may be called again
	// with the same after an error.
	SendDecisions(ctx context.Context, b *decisionlog.Batch, body []byte) error
	// DecisionSalt is the secret of all replicas that values are hashed with, 32 bytes.
	DecisionSalt(ctx context.Context) ([]byte, error)
}

const (
	// waitingDecisions bounds the batches that wait while Redis is away, in bytes.
	waitingDecisions = 16 << 20
	saltEvery        = time.Hour
)

// cargo is batches on their way, the oldest first.
type cargo struct {
	batches []shipment
	bytes   int
}

type shipment struct {
	batch   decisionlog.Batch // without its entries
	body    []byte
	entries int64
}

// prepareLog learns how values are hashed before there are any. Where Redis is away
// they are hashed by a secret of this replica's own meanwhile: a replay then takes them
// for others than those of other replicas, or of later.
func (g *Gateway) prepareLog(ctx context.Context) {
	if g.recorder == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	g.recorder.fetchSalt(ctx, g.cfg.Reporter.(DecisionReporter))
}

// decisionLoop ships what was logged, about once a second.
func (g *Gateway) decisionLoop(ctx context.Context) error {
	if g.recorder == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	to := g.cfg.Reporter.(DecisionReporter)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var waiting cargo
	var salted time.Time
	for {
		if salted.IsZero() || time.Since(salted) > saltEvery {
			if g.recorder.fetchSalt(ctx, to) {
				salted = time.Now()
			}
		}
		select {
		case <-ctx.Done():
			g.shipDecisions(context.WithoutCancel(ctx), to, &waiting)
			return ctx.Err()
		case <-ticker.C:
			g.shipDecisions(ctx, to, &waiting)
		}
	}
}

func (r *recorder) fetchSalt(ctx context.Context, from DecisionReporter) bool {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	salt, err := from.DecisionSalt(ctx)
	if err != nil || len(salt) != sha256.Size {
		return false
	}
	r.salt.Store((*[sha256.Size]byte)(salt))
	return true
}

// shipDecisions cuts the log and sends what waits. What does not get through waits on;
// beyond the bound the oldest is lost, which the log says.
func (g *Gateway) shipDecisions(ctx context.Context, to DecisionReporter, waiting *cargo) {
	log := g.recorder.log
	batches := log.Cut(g.cfg.Now())
	for i := range batches {
		b := &batches[i]
		body, err := decisionlog.Encode(b)
		if err != nil {
			g.cfg.Log.Error("a batch of decisions cannot be logged", "error", err.Error())
			log.Lost(int64(len(b.Entries)), b.Dropped)
			continue
		}
		entries := int64(len(b.Entries))
		b.Entries = nil
		waiting.batches, waiting.bytes = append(waiting.batches, shipment{*b, body, entries}), waiting.bytes+len(body)
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	for len(waiting.batches) > 0 {
		first := &waiting.batches[0]
		if err := to.SendDecisions(ctx, &first.batch, first.body); err != nil {
			break
		}
		waiting.drop()
	}
	for waiting.bytes > waitingDecisions {
		log.Lost(waiting.batches[0].entries, waiting.batches[0].batch.Dropped)
		waiting.drop()
	}
}

// drop lets go of the oldest batch.
func (c *cargo) drop() {
	c.bytes -= len(c.batches[0].body)
	c.batches[0] = shipment{}
	c.batches = c.batches[1:]
}
