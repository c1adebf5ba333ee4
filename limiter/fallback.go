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
	keys     []fallbackKey // of buckets, in the order that the hand looks at them
	hand     int
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
	if known || f.claim(key, now) {
		b, wait = draw(b, known, now, n, cost)
		f.buckets[key] = b
		return wait, wait == 0
	}
	b, known = f.overflow[req.Route]
	b, wait = draw(b, known, now, n, cost)
	f.overflow[req.Route] = b
	return wait, wait == 0
}

// claim makes room for a newcomer. When the table is full it looks at the next
// few buckets, going round, and gives the newcomer the place of one that has been
// full for a while: it is no different from one that was never seen.
func (f *fallback) claim(key fallbackKey, now int64) bool {
	if len(f.keys) < f.max {
		f.keys = append(f.keys, key)
		return true
	}
	for range min(sweepProbes, len(f.keys)) {
		at := f.hand
		f.hand = (f.hand + 1) % len(f.keys)
		if old := f.keys[at]; f.buckets[old].Forgotten(now) {
			delete(f.buckets, old)
			f.keys[at] = key
			return true
		}
	}
	return false
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
	for i := range r.Draw.Charges {
		cost = max(cost, r.Draw.Charges[i].Cost)
	}
	return cost
}
