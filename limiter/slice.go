package limiter

import (
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/policy"
)

// Times of slices.
const (
	// sliceLife is how long a slice is spent for, from the sending of the call that
	// debited it. A token is thus spent at most policy.LeasePeriod after its debit,
	// with room for a caller that is held up after it looked at the clock. Over that
	// time the store's bucket may refill what is still out, so a leased limit's bucket
	// is smaller by as much (leasedNumbers): then what is admitted keeps to the limit's
	// own bound over every interval. What is not spent comes back without the
	// refill of the time that it was out (Amendment.Since), as if it had never been taken.
	sliceLife = 40_000
	// sliceSpan is how much demand a slice is made for.
	sliceSpan = 25_000
	// measureSpan is the shortest time over which demand is measured: a few requests
	// that come together are no demand for a slice.
	measureSpan = 5_000
	// carrySpan bounds for how long an earlier demand is carried on.
	carrySpan = 50_000
)

const (
	minSlice  = 2 // tokens below which a slice is not worth while
	shareOfIt = 4 // of as many parts of what the bucket holds, each replica may take one into a slice
)

// leasedNumbers are the numbers of the store's bucket of a leased limit: its burst
// is reduced by what refills within policy.LeasePeriod. ok is false when the limit is too
// small for that: then it is exact.
func leasedNumbers(n policy.Numbers) (reduced policy.Numbers, ok bool) {
	burst := n.LeasedBurst()
	ok = burst < n.Burst
	n.Burst = burst
	return n, ok
}

// grant is one debit of the store's bucket that is spent in process.
type grant struct {
	left    atomic.Int64
	size    int64
	until   int64 // local µs: not spent from then on
	debited int64 // store's µs
}

// take spends cost if it is there. Low is true for the one caller that brings the
// grant below half.
func (g *grant) take(cost int64) (ok, low bool) {
	for {
		left := g.left.Load()
		if left < cost {
			return false, false
		}
		if g.left.CompareAndSwap(left, left-cost) {
			half := g.size / 2
			return true, left >= half && left-cost < half
		}
	}
}

// slice is what one process knows and holds of one leased bucket. Spending takes no
// lock; everything else does.
type slice struct {
	key       sliceKey
	limitID   string
	current   atomic.Pointer[grant]
	next      atomic.Pointer[grant] // fetched ahead
	refilling atomic.Bool
	asked     atomic.Int64 // tokens asked for since the demand was measured, beyond grants

	mu      sync.Mutex
	numbers policy.Numbers // of the store's bucket
	known   int64          // whole tokens in the store's bucket, as last heard
	since   int64          // local µs from which demand is counted
	demand  float64        // tokens per µs
	retired []*grant       // not spent any more; what is left goes back
	touched int64          // local µs of the last use
}

type sliceKey struct {
	row  Row
	hash uint64
}

// spend takes cost from what is held. Low says that it is time to fetch more.
func (s *slice) spend(cost, now int64) (from *grant, low bool) {
	if g := s.current.Load(); g != nil && now < g.until {
		if ok, low := g.take(cost); ok {
			return g, low
		}
	}
	if s.next.Load() == nil {
		return nil, false
	}
	s.promote(now)
	if g := s.current.Load(); g != nil && now < g.until {
		if ok, low := g.take(cost); ok {
			return g, low
		}
	}
	return nil, false
}

// holds reports whether cost could be spent now.
func (s *slice) holds(cost, now int64) bool {
	for _, g := range [...]*grant{s.current.Load(), s.next.Load()} {
		if g != nil && now < g.until && g.left.Load() >= cost {
			return true
		}
	}
	return false
}

// promote makes what was fetched ahead the current grant.
func (s *slice) promote(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next := s.next.Swap(nil); next != nil {
		s.replace(next, now)
	}
}

// replace wants the lock held.
func (s *slice) replace(g *grant, now int64) {
	if old := s.current.Swap(g); old != nil {
		s.asked.Add(old.size - old.left.Load())
		s.retired = append(s.retired, old)
	}
	s.touched = now
}

// claim says how many tokens to fetch, and reserves the one refill that may be
// under way; 0: fetch none. A caller that gets more must call deliver. As the bucket
// empties, what so many replicas hold unspent is kept small against what it has.
func (s *slice) claim(now int64, n policy.Numbers, replicas int) int64 {
	if s.next.Load() != nil || !s.refilling.CompareAndSwap(false, true) {
		return 0
	}
	s.mu.Lock()
	s.renumber(n, now)
	s.measure(now)
	size := min(int64(s.demand*sliceSpan), s.known/(shareOfIt*int64(max(1, replicas))))
	s.mu.Unlock()
	if size < minSlice {
		s.refilling.Store(false)
		return 0
	}
	return size
}

// renumber starts again under other numbers: what is held was debited under the
// old ones and goes back. It wants the lock held.
func (s *slice) renumber(n policy.Numbers, now int64) {
	if s.numbers == n {
		return
	}
	s.numbers, s.known = n, 0
	if old := s.current.Swap(nil); old != nil {
		s.retired = append(s.retired, old)
	}
	if old := s.next.Swap(nil); old != nil {
		s.retired = append(s.retired, old)
	}
	s.asked.Store(0)
	s.since = now
}

// measure brings the demand up to date. It rises at once and falls by halves, so
// that a short lull does not send every request to the store. It wants the lock
// held.
func (s *slice) measure(now int64) {
	elapsed := now - s.since
	if elapsed < measureSpan {
		return
	}
	asked := s.asked.Swap(0)
	if g := s.current.Load(); g != nil { // its part so far; replace adds the rest
		spent := g.size - g.left.Load()
		asked += spent
		s.asked.Add(-spent)
	}
	recent := float64(asked) / float64(elapsed)
	s.demand = max(recent, min((s.demand+recent)/2, s.demand*carrySpan/float64(elapsed)))
	s.since = now
}

// deliver ends a claim, with what was got: a grant, or nil.
func (s *slice) deliver(g *grant, now int64) {
	if g != nil {
		s.mu.Lock()
		if c := s.current.Load(); c == nil || now >= c.until || c.left.Load() == 0 {
			s.replace(g, now)
		} else {
			s.next.Store(g)
		}
		s.mu.Unlock()
	}
	s.refilling.Store(false)
}

// heard takes in what the store said of the bucket, and what was asked of it.
func (s *slice) heard(level Level, n policy.Numbers, cost, now int64) {
	s.asked.Add(cost)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renumber(n, now)
	s.touched = now
	s.known = max(0, level.Units/n.Period)
	if level.Overflow || level.WaitMicros > 0 {
		s.known = 0
	}
}

// collect takes out what is not to be spent any more: of grants that have ended,
// or of all. Held says whether some is left to be collected later.
func (s *slice) collect(now int64, all bool) (back []Amendment, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.next.Load(); g != nil && (all || now >= g.until) && s.next.CompareAndSwap(g, nil) {
		s.retired = append(s.retired, g)
	}
	if g := s.current.Load(); g != nil && (all || now >= g.until) {
		s.replace(nil, s.touched)
	}
	for _, g := range s.retired {
		if left := g.left.Swap(0); left > 0 {
			back = append(back, Amendment{
				Row: s.key.row, Hash: s.key.hash, Numbers: s.numbers, Tokens: left, Since: g.debited,
			})
		}
	}
	s.retired = s.retired[:0]
	return back, s.current.Load() != nil || s.next.Load() != nil
}

// idle reports whether nobody would miss the slice.
func (s *slice) idle(now int64) bool {
	if s.current.Load() != nil || s.next.Load() != nil || s.refilling.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return now-s.touched > idleSlice && len(s.retired) == 0
}
