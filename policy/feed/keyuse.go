package feed

import (
	"context"
	"time"

	"github.com/headgate/headgate/usage"
)

// keyUsePerRequest is how many batches of key uses are read at once.
const keyUsePerRequest = 64 // most are some KiB; each may be 1 MiB

// usageKeys is the stream of key uses. Batches are numbered, so consoles notice what
// they lose.
func (k keys) usageKeys() batchStream {
	return batchStream{
		what: "key uses", key: k.ns + ":usage:keys", ttl: 24 * time.Hour, entries: 200_000,
		bytes:      63 << 20, // with the entry that is not counted, below 64 MiB
		perRequest: keyUsePerRequest, most: usage.MaxKeyBody,
	}
}

// SendKeyUse adds a batch, as usage.EncodeKeys wrote it, to the stream of key uses.
// The same batch may be sent again after an error: the reader takes it once.
func (r *Reporter) SendKeyUse(ctx context.Context, b *usage.KeyBatch, body []byte) error {
	return r.keys.usageKeys().send(ctx, r.cfg.Client, b.Replica, b.Boot, b.Seq, body)
}

// KeyUse returns the batches of key uses after a place ("" for all that are held) and
// the place after them, some dozens a call: call again until the place stays. It does
// not wait. After Redis lost the stream it begins anew by itself: a reader has to take
// a batch once however often it is read.
func (p *Publisher) KeyUse(ctx context.Context, after string) ([][]byte, string, error) {
	return p.readStream(ctx, p.keys.usageKeys(), after)
}
