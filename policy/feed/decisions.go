package feed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/decisionlog"
)

// Bounds on the stream of decisions. Consoles that are away for a day lose what is
// older, or what is beyond the bytes.
const (
	decisionsTTL        = 24 * time.Hour
	decisionsEntries    = 100_000
	decisionsBytes      = 63 << 20 // with the entry that is not counted, below 64 MiB
	decisionsPerRequest = 32       // each may be 1 MiB
	saltTTL             = 90 * 24 * time.Hour
	saltBytes           = 32
)

func (k keys) usageDecisions() string { return k.ns + ":usage:decisions" }
func (k keys) usageSalt() string      { return k.ns + ":usage:salt" }

// SendDecisions adds a batch, as decisionlog.Encode wrote it, to the stream of
// decisions. The same batch may be sent again after an error: the reader takes it once.
func (r *Reporter) SendDecisions(ctx context.Context, b *decisionlog.Batch, body []byte) error {
	if len(body) == 0 || len(body) > decisionlog.MaxCompressed {
		return fmt.Errorf("send decisions: batch of %d bytes", len(body))
	}
	err := usageScript.Run(ctx, r.cfg.Client, []string{r.keys.usageDecisions()},
		b.Replica, b.Boot, body, decisionsEntries, decisionsBytes, decisionsTTL.Milliseconds()).Err()
	if err != nil {
		return fmt.Errorf("send decisions %d: %w", b.Seq, err)
	}
	return nil
}

// DecisionSalt is what the values in logged decisions are hashed with: 32 bytes that
// all replicas have in common. Whoever asks first makes it.
func (r *Reporter) DecisionSalt(ctx context.Context) ([]byte, error) {
	key := r.keys.usageSalt()
	own := make([]byte, saltBytes)
	_, _ = rand.Read(own) // never fails
	if err := r.cfg.Client.SetArgs(ctx, key, own, redis.SetArgs{Mode: "NX", TTL: saltTTL}).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("make the salt of logged decisions: %w", err)
	}
	salt, err := r.cfg.Client.Get(ctx, key).Bytes()
	if err != nil {
		return nil, fmt.Errorf("read the salt of logged decisions: %w", err)
	}
	if len(salt) != saltBytes {
		return nil, fmt.Errorf("the salt of logged decisions has %d bytes, not %d", len(salt), saltBytes)
	}
	if err := r.cfg.Client.PExpire(ctx, key, saltTTL).Err(); err != nil {
		return nil, fmt.Errorf("keep the salt of logged decisions: %w", err)
	}
	return salt, nil
}

// Decisions returns the batches of decisions after a place ("" for all that are held)
// and the place after them, some dozens a call: call again until the place stays. It
// does not wait. After Redis lost the stream it begins anew by itself: a reader has
// to take a batch once however often it is read.
func (p *Publisher) Decisions(ctx context.Context, after string) ([][]byte, string, error) {
	from := "-"
	if after != "" {
		if !streamID(after) {
			return nil, "", fmt.Errorf("read decisions: place %q is none", after)
		}
		from = "(" + after
	}
	entries, err := p.cfg.Client.XRangeN(ctx, p.keys.usageDecisions(), from, "+", decisionsPerRequest).Result()
	if err != nil {
		return nil, after, fmt.Errorf("read decisions: %w", err)
	}
	if len(entries) == 0 {
		next, err := p.restart(ctx, p.keys.usageDecisions(), after)
		return nil, next, err
	}
	bodies := make([][]byte, 0, len(entries))
	for _, e := range entries {
		after = e.ID
		if body, _ := e.Values["batch"].(string); body != "" && len(body) <= decisionlog.MaxCompressed {
			bodies = append(bodies, []byte(body))
			continue
		}
		p.cfg.Log.WarnContext(ctx, "unreadable entry of decisions", "entry", e.ID)
	}
	return bodies, after, nil
}

// restart goes back to the beginning of a stream when its newest entry lies before the
// place: Redis was replaced, and its clock is behind the old one's.
func (p *Publisher) restart(ctx context.Context, stream, after string) (string, error) {
	if after == "" {
		return "", nil
	}
	last, err := p.cfg.Client.XRevRangeN(ctx, stream, "+", "-", 1).Result()
	if err != nil {
		return after, fmt.Errorf("read newest entry of %s: %w", stream, err)
	}
	if len(last) == 1 && streamBefore(last[0].ID, after) {
		return "", nil
	}
	return after, nil
}
