package limiter

import "context"

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
