package feed

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// defaultSpread is over how long replicas spread their reading of a new
	// version: a bell reaches all of them at once, and a document may have 8 MiB.
	defaultSpread = 40 * time.Millisecond
	// fetchBurst versions in a row are read as they come; then one each
	// fetchEvery, whatever number is published: those in between are skipped.
	// Twelve replicas read no more than twenty documents a second.
	fetchBurst = 3
	fetchEvery = 600 * time.Millisecond
)

// ration bounds how often documents are read. It is of one goroutine.
type ration struct {
	burst int
	every time.Duration
	left  int
	at    time.Time // when left was last filled up
}

func newRation(burst int, every time.Duration) *ration {
	return &ration{burst: burst, every: every, left: burst}
}

// take reports 0 when a document may be read now, else how long to wait.
func (r *ration) take(now time.Time) time.Duration {
	if r.left == r.burst {
		r.at = now
	}
	if due := int(now.Sub(r.at) / r.every); due > 0 {
		r.left = min(r.left+due, r.burst)
		r.at = r.at.Add(time.Duration(due) * r.every)
	}
	if r.left > 0 {
		r.left--
		return 0
	}
	return r.every - max(0, now.Sub(r.at))
}

// spread waits for a random part of d, or until ctx ends.
func spread(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(rand.N(d)) //nolint:gosec // spreads load, guards nothing
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
