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

const (
	// decisionsPerRequest is how many batches of decisions are read at once.
	decisionsPerRequest = 32 // each may be 1 MiB
	saltTTL             = 90 * 24 * time.Hour
	saltBytes           = 32
)

// usageDecisions is the stream of logged decisions.
func (k keys) usageDecisions() batchStream {
	return batchStream{
		what: "decisions", key: k.ns + ":usage:decisions", ttl: 24 * time.Hour, entries: 100_000,
		bytes:      63 << 20, // with the entry that is not counted, below 64 MiB
		perRequest: decisionsPerRequest, most: decisionlog.MaxCompressed,
	}
}

func (k keys) usageSalt() string { return k.ns + ":usage:salt" }

// SendDecisions adds a batch, as decisionlog.Encode wrote it, to the stream of
// decisions. The same batch may be sent again after an error: the reader takes it once.
func (r *Reporter) SendDecisions(ctx context.Context, b *decisionlog.Batch, body []byte) error {
	return r.keys.usageDecisions().send(ctx, r.cfg.Client, b.Replica, b.Boot, b.Seq, body)
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
	return p.readStream(ctx, p.keys.usageDecisions(), after)
}
