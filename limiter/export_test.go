package limiter

import (
	"context"
	"time"
)

// Probe makes the half-open attempt if it is due, as Run does.
func (l *Limiter) Probe() { l.probe(context.Background()) }

// FallbackSize is the number of subjects with a bucket of their own.
func (l *Limiter) FallbackSize() int {
	l.fallback.mu.Lock()
	defer l.fallback.mu.Unlock()
	return len(l.fallback.buckets)
}

// Denials is the number of refusals that are remembered.
func (l *Limiter) Denials() int {
	n := 0
	for i := range l.denied.places {
		if l.denied.places[i].Load() != nil {
			n++
		}
	}
	return n
}

// Inline makes refills happen within the request that causes them.
func (l *Limiter) Inline() { l.slices.spawn = func(f func()) { f() } }

// GiveBack returns what slices hold to the store, as Run does: what has ended, or all.
func (l *Limiter) GiveBack(all bool) { l.giveBack(context.Background(), all) }

// SliceTokens is the number of tokens that slices hold.
func (l *Limiter) SliceTokens() int64 {
	l.slices.mu.RLock()
	defer l.slices.mu.RUnlock()
	sum := int64(0)
	for _, s := range l.slices.byKey {
		for _, g := range []*grant{s.current.Load(), s.next.Load()} {
			if g != nil {
				sum += g.left.Load()
			}
		}
	}
	return sum
}

// Slices is the number of leased buckets.
func (l *Limiter) Slices() int { return len(l.slices.byKey) }

// SliceEnds is when the first slice that holds something ends.
func (l *Limiter) SliceEnds() (end time.Time) {
	for _, s := range l.slices.byKey {
		if g := s.current.Load(); g != nil && g.left.Load() > 0 {
			end = time.UnixMicro(g.until)
		}
	}
	return end
}

// PendingReleases is the number of releases that wait to be repeated.
func (l *Limiter) PendingReleases() int {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	return len(l.keeper.pending)
}
