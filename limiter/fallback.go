package limiter

import (
	"sync"

	"github.com/headgate/headgate/policy"
)

// sweepProbes bounds the entries looked at when a newcomer finds the table full.
const sweepProbes = 16

// fallback counts requests in process while the store is away: one token bucket
// per route and identity in a bounded table, and one bucket per route that all
// others share. Buckets outlive an outage and refill by time, so a store that
// comes and goes hands out no fresh budget.
type fallback struct {
	max int

	mu       sync.Mutex
	buckets  map[fallbackKey]Bucket
	overflow map[string]Bucket // by route: as many as the policies in force have named
}

type fallbackKey struct{ route, identity string }

func newFallback(maxEntries int) *fallback {
	return &fallback{max: maxEntries, buckets: map[fallbackKey]Bucket{}, overflow: map[string]Bucket{}}
}

// take charges the request's fallback bucket. When it is refused, wait is the
// exact time until the bucket can pay, or 0 when it never can.
func (f *fallback) take(now int64, req Request) (wait int64, ok bool) {
	n, err := policy.NumbersOf(req.Fail.Fallback.Rate, req.Fail.Fallback.Burst)
	cost := req.fallbackCost()
	if err != nil || n.Blocked() || cost > n.Burst {
		return 0, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := fallbackKey{req.Route, req.Identity}
	b, known := f.buckets[key]
	if known || f.room(now) {
		b, wait = draw(b, known, now, n, cost)
		f.buckets[key] = b
		return wait, wait == 0
	}
	b, known = f.overflow[req.Route]
	b, wait = draw(b, known, now, n, cost)
	f.overflow[req.Route] = b
	return wait, wait == 0
}

// room reports whether a newcomer fits, dropping a few buckets that are full
// again: they are no different from newcomers.
func (f *fallback) room(now int64) bool {
	if len(f.buckets) < f.max {
		return true
	}
	looked := 0
	for key, b := range f.buckets { // in random order
		if b.Forgotten(now) {
			delete(f.buckets, key)
		}
		if looked++; looked == sweepProbes {
			break
		}
	}
	return len(f.buckets) < f.max
}

// draw brings the bucket to now and takes the cost if it is there.
func draw(b Bucket, known bool, now int64, n policy.Numbers, cost int64) (Bucket, int64) {
	if !known {
		b = FullBucket(now, n)
	}
	b = b.Advance(now, n)
	wait := Wait(b.Units, cost, n)
	if wait == 0 {
		b.Units -= cost * n.Period
	}
	return b, wait
}

func (r *Request) fallbackCost() int64 {
	cost := max(1, r.Cost)
	if r.Cost > 0 {
		return cost
	}
	for i := range r.Charges {
		cost = max(cost, r.Charges[i].Cost)
	}
	return cost
}
