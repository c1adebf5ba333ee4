package limiter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxSlices  = 8192       // buckets leased at once; further ones are exact
	idleSlice  = 10_000_000 // µs without use after which a slice may make room
	sliceLooks = 16         // slices looked at to find an idle one
	sweepEvery = 5 * time.Millisecond
)

// sliceSet is all the leased buckets of a process.
type sliceSet struct {
	mu      sync.RWMutex
	byKey   map[sliceKey]*slice
	granted chan struct{} // capacity 1: tells Run that something is held

	closing sync.Mutex // orders spawn before the wait of drain
	closed  bool
	running sync.WaitGroup
	spawn   func(func()) // starts a refill; tests replace it
	count   struct{ slices, tokens, returned atomic.Int64 }
}

func newSlices() *sliceSet {
	s := &sliceSet{byKey: map[sliceKey]*slice{}, granted: make(chan struct{}, 1)}
	s.spawn = func(f func()) { go f() }
	return s
}

// of is the slice of a charge. It is nil when there is none and make is false, or
// no room for one.
func (s *sliceSet) of(c *Charge, now int64, create bool) *slice {
	key := sliceKey{c.Row, c.Hash}
	s.mu.RLock()
	found := s.byKey[key]
	s.mu.RUnlock()
	if found != nil || !create {
		return found
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.byKey[key]; found != nil {
		return found
	}
	if len(s.byKey) >= maxSlices && !s.makeRoom(now) {
		return nil
	}
	made := &slice{key: key, limitID: c.LimitID, since: now, touched: now}
	s.byKey[key] = made
	return made
}

// makeRoom drops an idle slice. It wants the lock held.
func (s *sliceSet) makeRoom(now int64) bool {
	looked := 0
	for key, old := range s.byKey { // in random order
		if old.idle(now) {
			delete(s.byKey, key)
			return true
		}
		if looked++; looked == sliceLooks {
			return false
		}
	}
	return false
}

// collect takes out of all slices what goes back to the store.
func (s *sliceSet) collect(now int64, all bool) (back []Amendment, held bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, one := range s.byKey {
		some, more := one.collect(now, all)
		back, held = append(back, some...), held || more
	}
	return back, held
}

// background runs f unless the limiter is draining.
func (s *sliceSet) background(f func()) bool {
	s.closing.Lock()
	if s.closed {
		s.closing.Unlock()
		return false
	}
	s.running.Add(1) // before drain can begin to wait
	s.closing.Unlock()
	s.spawn(func() {
		defer s.running.Done()
		f()
	})
	return true
}

func (s *sliceSet) isClosed() bool {
	s.closing.Lock()
	defer s.closing.Unlock()
	return s.closed
}

func (s *sliceSet) setClosed(closed bool) {
	s.closing.Lock()
	defer s.closing.Unlock()
	s.closed = closed
}

// fetchAhead gets more tokens for a slice that is running low, in the background.
func (l *Limiter) fetchAhead(s *slice, c *Charge) {
	now := l.clock.micros()
	n, _ := l.numbersOf(c)
	size := s.claim(now, n, l.cfg.Replicas())
	if size == 0 {
		return
	}
	charge := *c
	charge.Numbers, charge.Cost, charge.Extra = n, 1, size-1
	if !l.slices.background(func() { l.fetch(s, charge) }) {
		s.deliver(nil, now)
	}
}

// fetch is one refill: a draw of one token with Extra ones.
func (l *Limiter) fetch(s *slice, c Charge) {
	generation, ask := l.breaker.allow()
	if !ask {
		s.deliver(nil, l.clock.micros())
		return
	}
	r, err := l.ask(context.Background(), Draw{Charges: []Charge{c}}, l.clock.micros())
	l.record(context.Background(), generation, err)
	if err != nil {
		s.deliver(nil, l.clock.micros())
		return
	}
	level := r.out.Levels[0]
	s.heard(level, c.Numbers, 0, r.received)
	if !r.out.Admitted || level.Overflow {
		s.deliver(nil, r.received)
		return
	}
	l.deliver(s, 1+level.Extra, r)
}

// deliver hands tokens that a call debited to the slice that claimed them.
func (l *Limiter) deliver(s *slice, tokens int64, r reply) {
	if tokens == 0 {
		s.deliver(nil, r.received)
		return
	}
	l.slices.count.slices.Add(1)
	l.slices.count.tokens.Add(tokens)
	g := &grant{size: tokens, until: r.sent + sliceLife, debited: r.out.NowMicros}
	g.left.Store(tokens)
	s.deliver(g, r.received)
	select {
	case l.slices.granted <- struct{}{}:
	default:
	}
}

// sweepSlices gives back what slices did not spend, as long as any holds some.
func (l *Limiter) sweepSlices(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.slices.granted:
		}
		for held := true; held; {
			if err := pause(ctx, sweepEvery); err != nil {
				return err
			}
			held = l.giveBack(ctx, false)
		}
	}
}

// giveBack returns what is not to be spent any more; with all, whatever is held. A
// call that fails is not repeated: tokens that do not come back are lost to the
// bucket until it refills.
func (l *Limiter) giveBack(ctx context.Context, all bool) (held bool) {
	back, held := l.slices.collect(l.clock.micros(), all)
	for len(back) > 0 {
		some := back[:min(len(back), MaxAmends)]
		back = back[len(some):]
		if l.Degraded() {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, l.cfg.Budget)
		if l.cfg.Store.Amend(ctx, "", some) == nil {
			for i := range some {
				l.slices.count.returned.Add(some[i].Tokens)
				l.denied.forget(&some[i].Row)
			}
		}
		cancel()
	}
	return held
}

// drain waits for refills under way and gives everything back.
func (l *Limiter) drain(ctx context.Context) {
	l.slices.setClosed(true)
	l.slices.running.Wait()
	l.giveBack(context.WithoutCancel(ctx), true)
}
