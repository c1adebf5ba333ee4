package limiter

import "sync/atomic"

// driftShift is how fast an estimate is taken to worsen: 1/1024 of its age.
const driftShift = 10

// storeClock estimates how far the store's clock is ahead of the process' own. A
// reply says that the store's clock stood at its time some time between sending and
// receiving.
type storeClock struct {
	best atomic.Pointer[clockSample]
}

type clockSample struct {
	offset int64 // µs that the store is ahead
	doubt  int64 // half the round trip
	at     int64 // local µs
}

// reply takes in one answer. It replaces the estimate when it is better than the
// estimate is by now, or contradicts it: then the store's clock stepped.
func (c *storeClock) reply(sent, received, store int64) {
	doubt := (received - sent + 1) / 2
	offset := store - (sent+received)/2
	if old := c.best.Load(); old != nil {
		oldDoubt := old.doubt + max(0, received-old.at)>>driftShift
		apart := offset - old.offset
		if doubt >= oldDoubt && max(apart, -apart) <= doubt+oldDoubt+1 {
			return
		}
	}
	c.best.Store(&clockSample{offset: offset, doubt: doubt, at: received})
}

func (c *storeClock) micros(local int64) int64 {
	if s := c.best.Load(); s != nil {
		return local + s.offset
	}
	return local
}

// StoreNow estimates the store's clock, in Unix µs, from the replies so far, and the
// process' own clock between them; the process' own until there was one. It is
// what expiries are measured by. It is off by at most half a round trip and a
// thousandth of the time since.
func (l *Limiter) StoreNow() int64 { return l.storeClock.micros(l.clock.micros()) }
