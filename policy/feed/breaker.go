package feed

import "sync/atomic"

// breakAfter failures in a row lookups are no longer tried.
const breakAfter = 3

// breaker keeps an outage from costing each lookup its timeout. Lookups open
// it; only the poll, which goes on in the background, closes it.
type breaker struct {
	failures atomic.Int32
	open     atomic.Bool
}

// failed reports whether this failure opened the breaker.
func (b *breaker) failed() bool {
	return b.failures.Add(1) >= breakAfter && b.open.CompareAndSwap(false, true)
}

// answered is called when Redis answered a lookup; it does not close the
// breaker, for the answer may be an old one.
func (b *breaker) answered() { b.failures.Store(0) }

func (b *breaker) close() {
	b.failures.Store(0)
	b.open.Store(false)
}
