package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/usage"
)

// Bounds on the stream of key uses. Consoles that are away for a day lose what is
// older, or what is beyond the bytes; batches are numbered, so they notice.
const (
	keyUseTTL        = 24 * time.Hour
	keyUseEntries    = 200_000
	keyUseBytes      = 63 << 20 // with the entry that is not counted, below 64 MiB
	keyUsePerRequest = 64       // most are some KiB; each may be 1 MiB
)

func (k keys) usageKeys() string { return k.ns + ":usage:keys" }

// SendKeyUse adds a batch, as usage.EncodeKeys wrote it, to the stream of key uses.
// The same batch may be sent again after an error: the reader takes it once.
func (r *Reporter) SendKeyUse(ctx context.Context, b *usage.KeyBatch, body []byte) error {
	if len(body) == 0 || len(body) > usage.MaxKeyBody {
		return fmt.Errorf("send key uses: batch of %d bytes", len(body))
	}
	err := usageScript.Run(ctx, r.cfg.Client, []string{r.keys.usageKeys()},
		b.Replica, b.Boot, body, keyUseEntries, keyUseBytes, keyUseTTL.Milliseconds()).Err()
	if err != nil {
		return fmt.Errorf("send key uses %d: %w", b.Seq, err)
	}
	return nil
}

// KeyUse returns the batches of key uses after a place ("" for all that are held) and
// the place after them, some dozens a call: call again until the place stays. It does
// not wait. After Redis lost the stream it begins anew by itself: a reader has to take
// a batch once however often it is read.
func (p *Publisher) KeyUse(ctx context.Context, after string) ([][]byte, string, error) {
	from := "-"
	if after != "" {
		if !streamID(after) {
			return nil, "", fmt.Errorf("read key uses: place %q is none", after)
		}
		from = "(" + after
	}
	entries, err := p.cfg.Client.XRangeN(ctx, p.keys.usageKeys(), from, "+", keyUsePerRequest).Result()
	if err != nil {
		return nil, after, fmt.Errorf("read key uses: %w", err)
	}
	if len(entries) == 0 {
		next, err := p.restart(ctx, p.keys.usageKeys(), after)
		return nil, next, err
	}
	bodies := make([][]byte, 0, len(entries))
	for _, e := range entries {
		after = e.ID
		if body, _ := e.Values["batch"].(string); body != "" && len(body) <= usage.MaxKeyBody {
			bodies = append(bodies, []byte(body))
			continue
		}
		p.cfg.Log.WarnContext(ctx, "unreadable entry of key uses", "entry", e.ID)
	}
	return bodies, after, nil
}
