// Package memstore is a limiter.Store in memory, with whatever clock it is
// given: for tests, simulation and a single process. Its answers are equal to
// those of redisstore, which a shared suite holds.
//
// It imports limiter and policy and, besides them, only the standard library.
package memstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate/limiter"
)

// Store keeps buckets, leases and counters in memory. What nobody needs any more
// is dropped as calls go by, so that memory follows the subjects that are in use.
type Store struct {
	now func() time.Time

	mu     sync.Mutex
	calls  uint64
	rows   table[limiter.Row, row]
	slots  table[limit, leases]
	quotas table[counted, counter]
	marks  table[string, int64] // ids of amendments, by the time in µs when they were applied
	marked bool                 // counters of recorded quotas can be believed
}

// limit names one limit of one subject.
type limit struct {
	row  limiter.Row
	hash uint64
}

// New makes an empty store that goes by the clock now.
func New(now func() time.Time) *Store {
	s := &Store{now: now}
	s.forget()
	return s
}

// Flush forgets everything.
func (s *Store) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
}

// Mark says that the counters of recorded quotas can be believed from now on: they
// have been rebuilt, or there was nothing to count. A flush takes it back.
func (s *Store) Mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marked = true
}

func (s *Store) forget() {
	s.marked = false
	s.rows = newTable[limiter.Row, row]()
	s.slots = newTable[limit, leases]()
	s.quotas = newTable[counted, counter]()
	s.marks = newTable[string, int64]()
}

// Ping succeeds as long as ctx lives.
func (s *Store) Ping(ctx context.Context) error { return ready(ctx, nil) }

// ready says why a call cannot be made: ctx has ended, or what it asks for
// cannot be counted.
func ready(ctx context.Context, uncountable error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", limiter.ErrStore, err)
	}
	if uncountable != nil {
		return fmt.Errorf("%w: %w", limiter.ErrStore, uncountable)
	}
	return nil
}

// begin locks the store, drops a little of what is not needed and reads the
// clock. The caller unlocks.
func (s *Store) begin() (now int64) {
	s.mu.Lock()
	now = s.now().UnixMicro()
	s.sweep(now)
	return now
}

// Take decides all parts of a draw together. It fails only when ctx has ended or
// the draw cannot be counted.
func (s *Store) Take(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	if err := ready(ctx, limiter.CheckDraw(d)); err != nil {
		return limiter.Outcome{}, err
	}
	now := s.begin()
	defer s.mu.Unlock()
	return s.decide(now, d), nil
}

// Amend makes corrections, unless the id is known already.
func (s *Store) Amend(ctx context.Context, id string, corrections []limiter.Amendment) error {
	if err := ready(ctx, limiter.CheckAmendments(id, corrections)); err != nil {
		return err
	}
	now := s.begin()
	defer s.mu.Unlock()
	if id != "" {
		if at := s.marks.get(id); at != nil && now < *at+markMicros {
			return nil
		}
		*s.marks.of(id) = now
	}
	for i := range corrections {
		s.correct(now, &corrections[i])
	}
	return nil
}

// Renew lets leases last on and says which are held.
func (s *Store) Renew(ctx context.Context, of []limiter.Lease) ([]bool, error) {
	if err := ready(ctx, limiter.CheckLeases(of)); err != nil {
		return nil, err
	}
	now := s.begin()
	defer s.mu.Unlock()
	held := make([]bool, len(of))
	for i := range of {
		held[i] = s.renew(now, &of[i])
	}
	return held, nil
}

// Release ends leases; one that is not held changes nothing.
func (s *Store) Release(ctx context.Context, of []limiter.Lease) error {
	if err := ready(ctx, limiter.CheckLeases(of)); err != nil {
		return err
	}
	s.begin()
	defer s.mu.Unlock()
	for i := range of {
		if set := s.slots.get(limit{of[i].Row, of[i].Hash}); set != nil {
			delete(set.expiry, of[i].ID)
		}
	}
	return nil
}
