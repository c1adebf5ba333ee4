package limiter

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	maxPending  = 100_000                // leases waiting to be released
	minRenew    = 20 * time.Millisecond  // between rounds of renewals
	renewBudget = 4                      // budgets that a call about leases may take
	retryEvery  = 100 * time.Millisecond // rounds while something is to be repeated
)

// Parts of a lease's time. It is renewed when a third of it is over, so that two
// thirds are left for renewals that fail and are repeated; what is due soon after a
// round goes along with it, which saves calls.
const (
	renewAfter = 3
	repeatIn   = 12
	dueSoon    = 24
)

// keeper renews the leases of requests that are under way, and releases those whose
// release failed, all from one goroutine.
type keeper struct {
	wake chan struct{} // capacity 1: something is due earlier than it was

	mu      sync.Mutex
	held    map[string]*heldLease // by lease id
	pending []pendingRelease
	next    int64 // local µs of the round that is waited for; 0: none
}

type heldLease struct {
	lease    Lease
	due      int64 // local µs of the next renewal
	flying   bool  // a renewal is under way
	released bool  // while it was: to be released after it
	lost     bool  // the last renewal found no place
}

type pendingRelease struct {
	lease Lease
	until int64 // local µs at which it has ended anyway
}

func newKeeper() *keeper {
	return &keeper{wake: make(chan struct{}, 1), held: map[string]*heldLease{}}
}

func (k *keeper) add(leases []Lease, now int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, lease := range leases {
		h := &heldLease{lease: lease, due: now + lease.HoldMicros/renewAfter}
		k.held[lease.ID] = h
		k.rouse(h.due)
	}
}

// rouse wakes the goroutine if it would sleep beyond due. It wants the lock held.
func (k *keeper) rouse(due int64) {
	if k.next != 0 && k.next <= due {
		return
	}
	k.next = due
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// remove stops renewing leases, and returns those that can be released at once: of
// one whose renewal is under way the release has to follow it, or the renewal
// would make the lease again.
func (k *keeper) remove(leases []Lease) []Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := make([]Lease, 0, len(leases))
	for _, lease := range leases {
		if h := k.held[lease.ID]; h != nil && h.flying {
			h.released = true
			continue
		}
		delete(k.held, lease.ID)
		now = append(now, lease)
	}
	return now
}

// soon has leases released in the background, at once.
func (k *keeper) soon(leases []Lease, now int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue(leases, now)
	k.rouse(now)
}

// later has leases released in the background, after a release that failed.
func (k *keeper) later(leases []Lease, now int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue(leases, now)
	k.rouse(now + retryEvery.Microseconds())
}

// queue wants the lock held.
func (k *keeper) queue(leases []Lease, now int64) {
	for _, lease := range leases {
		if len(k.pending) < maxPending {
			k.pending = append(k.pending, pendingRelease{lease, now + lease.HoldMicros})
		}
	}
}

// disown releases the leases that a draw without an answer may have made.
func (k *keeper) disown(draw *Draw, now int64) {
	if len(draw.Slots) == 0 {
		return
	}
	leases := make([]Lease, len(draw.Slots))
	for i := range draw.Slots {
		leases[i] = draw.Slots[i].Held()
	}
	k.soon(leases, now)
}

// due are the leases to renew now, and those that would be soon after. They fly until
// landed, which sets them a later time than what is soon.
func (k *keeper) due(now int64) []Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []Lease
	for _, h := range k.held {
		if h.due <= now+h.lease.HoldMicros/dueSoon && !h.flying {
			h.flying = true
			list = append(list, h.lease)
		}
	}
	return list
}

// landed takes in the outcome of a renewal: which are held, or nil when it failed. It
// returns how many were lost by it.
func (k *keeper) landed(leases []Lease, held []bool, now int64) (lost int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, lease := range leases {
		h := k.held[lease.ID]
		if h == nil {
			continue
		}
		h.flying = false
		if h.released {
			delete(k.held, lease.ID)
			k.queue([]Lease{lease}, now) // this goroutine releases it right after
			continue
		}
		if held == nil {
			h.due = now + max(retryEvery.Microseconds(), lease.HoldMicros/repeatIn)
			continue
		}
		if !held[i] && !h.lost {
			lost++
		}
		h.lost, h.due = !held[i], now+lease.HoldMicros/renewAfter
	}
	return lost
}

// takePending takes out some of the releases to repeat. Leases that have ended are
// dropped.
func (k *keeper) takePending(now int64) (some []pendingRelease, leases []Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	rest := k.pending[:0]
	for _, p := range k.pending {
		switch {
		case p.until <= now:
		case len(some) < MaxLeases:
			some, leases = append(some, p), append(leases, p.lease)
		default:
			rest = append(rest, p)
		}
	}
	k.pending = rest
	return some, leases
}

// putBack keeps releases that failed again, for the next round.
func (k *keeper) putBack(some []pendingRelease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending = append(k.pending, some...)
}

// sleep is how long the goroutine may sleep; 0 until it is woken.
func (k *keeper) sleep(now int64) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next = 0
	for _, h := range k.held {
		if !h.flying && (k.next == 0 || h.due < k.next) {
			k.next = h.due
		}
	}
	if retry := now + retryEvery.Microseconds(); len(k.pending) > 0 && (k.next == 0 || retry < k.next) {
		k.next = retry
	}
	if k.next == 0 {
		return 0
	}
	return max(minRenew, time.Duration(k.next-now)*time.Microsecond)
}

func (k *keeper) size() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return int64(len(k.held))
}

// keepLeases renews and releases until ctx ends.
func (l *Limiter) keepLeases(ctx context.Context) error {
	for {
		if err := l.pauseOrWake(ctx, l.keeper.sleep(l.clock.micros())); err != nil {
			return err
		}
		l.renewDue(ctx)
		l.releasePending(ctx)
	}
}

// pauseOrWake waits for d, or until it is woken; 0 is for as long as it takes.
func (l *Limiter) pauseOrWake(ctx context.Context, d time.Duration) error {
	var timeout <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.keeper.wake:
	case <-timeout:
	}
	return nil
}

// renewDue is one round: what fails in it is repeated in a later one.
func (l *Limiter) renewDue(ctx context.Context) {
	for leases := range slices.Chunk(l.keeper.due(l.clock.micros()), MaxLeases) {
		held, err := l.renew(ctx, leases)
		if err != nil || len(held) != len(leases) {
			held = nil
			l.counts.renewFailed.Add(int64(len(leases)))
		}
		l.counts.lost.Add(l.keeper.landed(leases, held, l.clock.micros()))
	}
}

func (l *Limiter) renew(ctx context.Context, leases []Lease) ([]bool, error) {
	if l.Degraded() {
		return nil, ErrStore
	}
	ctx, cancel := context.WithTimeout(ctx, renewBudget*l.cfg.Budget)
	defer cancel()
	return l.cfg.Store.Renew(ctx, leases)
}

func (l *Limiter) releasePending(ctx context.Context) {
	for {
		some, leases := l.keeper.takePending(l.clock.micros())
		if len(leases) == 0 {
			return
		}
		if err := l.ReleaseLeases(ctx, leases); err != nil {
			l.keeper.putBack(some)
			return
		}
	}
}
