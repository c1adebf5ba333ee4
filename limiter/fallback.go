package limiter

import (
	"sync"

	"github.com/headgate/headgate/policy"
)

// sweepProbes bounds the entries looked at when a newcomer finds the table full.
const sweepProbes = 16

// fallback counts requests in process while the store is away, in a bounded table of
// token buckets and one bucket per route (of `share`: per limit) that all others
// share. Buckets outlive an outage and refill by time, so a store that comes and
// goes hands out no fresh budget.
type fallback struct {
	max int

	mu       sync.Mutex
	buckets  map[fallbackKey]Bucket
	keys     []fallbackKey // of buckets, in the order that the hand looks at them
	hand     int
	overflow map[fallbackGroup]Bucket // as many as the policies in force have named
}

// fallbackGroup is a route, or a limit of which each replica has a share.
type fallbackGroup struct{ route, limit string }

type fallbackKey struct {
	group    fallbackGroup
	identity string
	row      Row
}

// fallbackPart is one bucket that a request draws from without the store.
type fallbackPart struct {
	key     fallbackKey
	numbers policy.Numbers
	cost    int64
}

func newFallback(maxEntries int) *fallback {
	return &fallback{max: maxEntries, buckets: map[fallbackKey]Bucket{}, overflow: map[fallbackGroup]Bucket{}}
}

// ownShare is what a fallback with a rate of its own counts: per route and identity.
func ownShare(req *Request) []fallbackPart {
	n, err := policy.NumbersOf(req.Fail.Fallback.Rate, req.Fail.Fallback.Burst)
	if err != nil {
		n = policy.Numbers{}
	}
	key := fallbackKey{group: fallbackGroup{route: req.Route}, identity: req.Identity}
	return []fallbackPart{{key, n, req.fallbackCost()}}
}

// shares is what `share` counts: each limit in force, divided by the number of
// replicas, so that all replicas together keep to it. Quotas and concurrency are
// nobody's to divide: they are not counted without the store.
func shares(req *Request, live int) []fallbackPart {
	n := max(1, int64(live), req.Expected)
	parts := make([]fallbackPart, 0, len(req.Draw.Charges))
	for i := range req.Draw.Charges {
		c := &req.Draw.Charges[i]
		if c.Shadow {
			continue
		}
		key := fallbackKey{group: fallbackGroup{limit: c.LimitID}, row: c.Row}
		parts = append(parts, fallbackPart{key, share(c.Numbers, n), c.Cost})
	}
	return parts
}

// share is the n-th part of a limit: its rate divided, its burst divided and
// rounded down, so that n shares never exceed the whole.
func share(whole policy.Numbers, n int64) policy.Numbers {
	part := policy.Numbers{Tokens: whole.Tokens, Period: whole.Period, Burst: whole.Burst / n}
	if part.Burst == 0 || part.Period > (policy.MaxUnits-1-part.Tokens)/part.Burst/n {
		// Too small to count: the rate would be below a token in decades.
		return policy.Numbers{Period: 1}
	}
	part.Period *= n
	return part
}

// take charges all the buckets, or none. When it is refused, wait is the exact time
// until all can pay, or 0 when one never can. A peek changes nothing that counts.
func (f *fallback) take(now int64, parts []fallbackPart, peek bool) (wait int64, ok bool) {
	for i := range parts {
		if p := &parts[i]; p.numbers.Blocked() || p.cost < 1 || p.cost > p.numbers.Burst {
			return 0, false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	undo := make([]func(), 0, len(parts))
	for i := range parts {
		partWait, restore := f.draw(now, &parts[i])
		wait = max(wait, partWait)
		undo = append(undo, restore)
	}
	if wait > 0 || peek {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	return wait, wait == 0
}

// draw brings one bucket to now and takes the cost if it is there. Restore gives it
// back. It wants the lock held.
func (f *fallback) draw(now int64, p *fallbackPart) (wait int64, restore func()) {
	b, known := f.buckets[p.key]
	if known || f.claim(p.key, now) {
		before, after, wait := drawn(b, known, now, p)
		f.buckets[p.key] = after
		return wait, func() { f.buckets[p.key] = before }
	}
	b, known = f.overflow[p.key.group]
	before, after, wait := drawn(b, known, now, p)
	f.overflow[p.key.group] = after
	return wait, func() { f.overflow[p.key.group] = before }
}

// drawn is the bucket at now, and after the cost was taken if it was there.
func drawn(b Bucket, known bool, now int64, p *fallbackPart) (before, after Bucket, wait int64) {
	if !known {
		b = FullBucket(now, p.numbers)
	}
	b = b.Advance(now, p.numbers)
	before = b
	wait = Wait(b.Units, p.cost, p.numbers)
	if wait == 0 {
		b.Units -= p.cost * p.numbers.Period
	}
	return before, b, wait
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
