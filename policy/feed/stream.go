package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// batchStream is a stream of Redis in which gateways tell consoles what they saw, a
// numbered batch an entry. It is bounded three ways, so consoles that are away for
// long lose what is oldest.
type batchStream struct {
	what       string // is in the batches, for errors
	key        string
	ttl        time.Duration // after the last entry
	entries    int
	bytes      int // of all batches but the newest
	perRequest int
	most       int // bytes of one batch
}

// send adds a batch. The same one may be sent again after an error: the reader takes
// each number of a boot once.
func (s batchStream) send(ctx context.Context, client redis.UniversalClient, replica, boot string, seq int64, body []byte) error {
	if len(body) == 0 || len(body) > s.most {
		return fmt.Errorf("send %s: batch of %d bytes", s.what, len(body))
	}
	err := usageScript.Run(ctx, client, []string{s.key}, replica, boot, body, s.entries, s.bytes, s.ttl.Milliseconds()).Err()
	if err != nil {
		return fmt.Errorf("send %s %d: %w", s.what, seq, err)
	}
	return nil
}

// readStream returns the batches after a place ("" for all that are held) and the
// place after them: call again until the place stays. It does not wait. After Redis
// lost the stream it begins anew by itself: a reader has to take a batch once however
// often it is read.
func (p *Publisher) readStream(ctx context.Context, s batchStream, after string) ([][]byte, string, error) {
	from := "-"
	if after != "" {
		if !streamID(after) {
			return nil, "", fmt.Errorf("read %s: place %q is none", s.what, after)
		}
		from = "(" + after
	}
	entries, err := p.cfg.Client.XRangeN(ctx, s.key, from, "+", int64(s.perRequest)).Result()
	if err != nil {
		return nil, after, fmt.Errorf("read %s: %w", s.what, err)
	}
	if len(entries) == 0 {
		next, err := p.restart(ctx, s.key, after)
		return nil, next, err
	}
	bodies := make([][]byte, 0, len(entries))
	for _, e := range entries {
		after = e.ID
		if body, _ := e.Values["batch"].(string); body != "" && len(body) <= s.most {
			bodies = append(bodies, []byte(body))
			continue
		}
		p.cfg.Log.WarnContext(ctx, "unreadable entry of "+s.what, "entry", e.ID)
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
