// Package memstore is a limiter.Store in memory, with whatever clock it is
// given: for tests, simulation and a single process. Its decisions are equal to
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

// sweepProbes bounds the rows looked at on each call, to drop forgotten ones.
const sweepProbes = 4

// sweepLagMicros is how long a row must have been forgotten before the sweep
// drops it: a clock that steps back by less does not see it missing.
const sweepLagMicros = 3_600_000_000

// Store keeps rows of buckets in memory. Rows whose buckets are all full again
// are dropped as calls go by.
type Store struct {
	now func() time.Time

	mu   sync.Mutex
	rows map[limiter.Row]map[uint64]limiter.Bucket
}

// New makes an empty store that goes by the clock now.
func New(now func() time.Time) *Store {
	return &Store{now: now, rows: map[limiter.Row]map[uint64]limiter.Bucket{}}
}

// Ping succeeds as long as ctx lives.
func (s *Store) Ping(ctx context.Context) error { return ended(ctx) }

func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", limiter.ErrStore, err)
	}
	return nil
}

// Take decides all charges together. It fails only when ctx has ended or the
// charges cannot be counted.
func (s *Store) Take(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	if err := ended(ctx); err != nil {
		return limiter.Outcome{}, err
	}
	if err := limiter.CheckDraw(d); err != nil {
		return limiter.Outcome{}, fmt.Errorf("%w: %w", limiter.ErrStore, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UnixMicro()
	s.sweep(now)
	return s.decide(now, d.Charges), nil
}

func (s *Store) decide(now int64, charges []limiter.Charge) limiter.Outcome {
	out := limiter.Outcome{Admitted: true, NowMicros: now, Levels: make([]limiter.Level, len(charges))}
	for i := range charges {
		b := s.touch(now, &charges[i])
		wait := limiter.Wait(b.Units, charges[i].Cost, b.Numbers)
		out.Levels[i] = limiter.Level{Units: b.Units, WaitMicros: wait}
		out.Admitted = out.Admitted && wait == 0
	}
	if !out.Admitted {
		return out
	}
	for i := range charges {
		n := charges[i].Numbers
		out.Levels[i].Units -= charges[i].Cost * n.Period
		s.row(charges[i].Row)[charges[i].Hash] = limiter.Bucket{Numbers: n, Units: out.Levels[i].Units, TimeMicros: now}
	}
	return out
}

// touch is the charge's bucket at now. It mends the whole row: what lies in the
// future is brought to now, what is forgotten goes. A bucket that was written
// under other numbers is stored under the new ones even if the request will be
// refused, else it would go on refilling at the old rate.
func (s *Store) touch(now int64, c *limiter.Charge) limiter.Bucket {
	row := s.rows[c.Row]
	mend(now, row)
	b, known := row[c.Hash]
	if !known {
		return limiter.FullBucket(now, c.Numbers)
	}
	moved := b.Advance(now, c.Numbers)
	if b.Numbers != c.Numbers {
		row[c.Hash] = moved
	}
	return moved
}

func mend(now int64, row map[uint64]limiter.Bucket) {
	for hash, b := range row {
		if b.TimeMicros > now {
			b.TimeMicros = now
			row[hash] = b
		}
		if b.Forgotten(now) {
			delete(row, hash)
		}
	}
}

func (s *Store) row(id limiter.Row) map[uint64]limiter.Bucket {
	row := s.rows[id]
	if row == nil {
		row = map[uint64]limiter.Bucket{}
		s.rows[id] = row
	}
	return row
}

// sweep drops a few rows that nobody needs any more, so that memory follows the
// subjects that are in use.
func (s *Store) sweep(now int64) {
	looked := 0
	for id, row := range s.rows { // in random order
		if allForgotten(now-sweepLagMicros, row) {
			delete(s.rows, id)
		}
		if looked++; looked == sweepProbes {
			return
		}
	}
}

func allForgotten(now int64, row map[uint64]limiter.Bucket) bool {
	for _, b := range row {
		if !b.Forgotten(now) {
			return false
		}
	}
	return true
}

// Rows is the number of subjects that are remembered at present.
func (s *Store) Rows() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

// Amend is not there yet.
func (s *Store) Amend(context.Context, string, []limiter.Amendment) error { return limiter.ErrStore }

// Renew is not there yet.
func (s *Store) Renew(context.Context, []limiter.Lease) ([]bool, error) { return nil, limiter.ErrStore }

// Release is not there yet.
func (s *Store) Release(context.Context, []limiter.Lease) error { return limiter.ErrStore }
