package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
)

// modelStore is the model as a Store.
type modelStore struct {
	clock Clock
	mu    sync.Mutex
	model *Model
}

func (s *modelStore) ready(ctx context.Context, err error) error {
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", limiter.ErrStore, err)
	}
	return nil
}

func (s *modelStore) Take(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	if err := s.ready(ctx, limiter.CheckDraw(d)); err != nil {
		return limiter.Outcome{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model.Decide(s.clock.Now(), d), nil
}

func (s *modelStore) Amend(ctx context.Context, id string, corrections []limiter.Amendment) error {
	if err := s.ready(ctx, limiter.CheckAmendments(id, corrections)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model.Amend(s.clock.Now(), id, corrections)
	return nil
}

func (s *modelStore) Renew(ctx context.Context, leases []limiter.Lease) ([]bool, error) {
	if err := s.ready(ctx, limiter.CheckLeases(leases)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model.Renew(s.clock.Now(), leases), nil
}

func (s *modelStore) Release(ctx context.Context, leases []limiter.Lease) error {
	if err := s.ready(ctx, limiter.CheckLeases(leases)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model.Release(leases)
	return nil
}

func (s *modelStore) Ping(ctx context.Context) error { return s.ready(ctx, nil) }

// TestModel_Conforms holds the reference to the cases whose numbers were worked
// out by hand.
func TestModel_Conforms(t *testing.T) {
	t.Parallel()
	Conform(t, func(*testing.T) World {
		s := &modelStore{clock: NewManual(), model: NewModel()}
		return World{Store: s, Clock: s.clock, Flush: func(testing.TB) { s.model.Flush() }, Mark: func(testing.TB) { s.model.Mark() }, Steps: 100}
	})
}

// faulty is a store with one thing wrong: each of its functions, if set, changes
// what is asked or answered.
type faulty struct {
	*memstore.Store
	draw    func(*limiter.Draw)
	answer  func(*limiter.Outcome)
	correct func(*limiter.Amendment)
	lease   func(*limiter.Lease)
	noIDs   bool
	allHeld bool
	keepAll bool
}

func (f faulty) Take(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	if f.draw != nil {
		own := limiter.Draw{Charges: append([]limiter.Charge(nil), d.Charges...), Slots: append([]limiter.Slot(nil), d.Slots...), Quotas: append([]limiter.Quota(nil), d.Quotas...)}
		f.draw(&own)
		d = &own
	}
	out, err := f.Store.Take(ctx, d)
	if f.answer != nil {
		f.answer(&out)
	}
	return out, err
}

func (f faulty) Amend(ctx context.Context, id string, corrections []limiter.Amendment) error {
	own := append([]limiter.Amendment(nil), corrections...)
	for i := range own {
		if f.correct != nil {
			f.correct(&own[i])
		}
	}
	if f.noIDs {
		id = ""
	}
	return f.Store.Amend(ctx, id, own)
}

func (f faulty) Renew(ctx context.Context, leases []limiter.Lease) ([]bool, error) {
	own := append([]limiter.Lease(nil), leases...)
	for i := range own {
		if f.lease != nil {
			f.lease(&own[i])
		}
	}
	held, err := f.Store.Renew(ctx, own)
	for i := range held {
		held[i] = held[i] || f.allHeld
	}
	return held, err
}

func (f faulty) Release(ctx context.Context, leases []limiter.Lease) error {
	if f.keepAll {
		return nil
	}
	return f.Store.Release(ctx, leases)
}

func eachCharge(change func(*limiter.Charge)) func(*limiter.Draw) {
	return func(d *limiter.Draw) {
		for i := range d.Charges {
			change(&d.Charges[i])
		}
	}
}

func eachQuota(change func(*limiter.Quota)) func(*limiter.Draw) {
	return func(d *limiter.Draw) {
		for i := range d.Quotas {
			change(&d.Quotas[i])
		}
	}
}

// TestTraces_I23_FindEveryFault: random traces are worth something only if they
// find stores with one thing wrong.
func TestTraces_I23_FindEveryFault(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faulty{
		"shadows refuse":           {draw: eachCharge(func(c *limiter.Charge) { c.Shadow = false })},
		"no extra tokens":          {draw: eachCharge(func(c *limiter.Charge) { c.Extra = 0 })},
		"one extra token more":     {draw: eachCharge(func(c *limiter.Charge) { c.Extra += min(1, c.Extra) })},
		"identifiers without end":  {draw: eachCharge(func(c *limiter.Charge) { c.Identifiers = 0 })},
		"fewer identifiers":        {draw: eachCharge(func(c *limiter.Charge) { c.Identifiers /= 2 })},
		"numbers are not taken":    {draw: eachCharge(func(c *limiter.Charge) { c.Numbers.Tokens = max(1, c.Numbers.Tokens-1) })},
		"a place too many":         {draw: func(d *limiter.Draw) { widen(d.Slots) }},
		"leases end early":         {draw: func(d *limiter.Draw) { shorten(d.Slots) }},
		"billing blocks":           {draw: eachQuota(func(q *limiter.Quota) { q.Bill = false })},
		"no most":                  {draw: eachQuota(func(q *limiter.Quota) { q.Most = 0 })},
		"quotas without a period":  {draw: eachQuota(func(q *limiter.Quota) { q.Start = 0 })},
		"quotas' shadows refuse":   {draw: eachQuota(func(q *limiter.Quota) { q.Shadow = false })},
		"overflow is not told":     {answer: func(out *limiter.Outcome) { hide(out.Levels) }},
		"debts are told as 0":      {answer: func(out *limiter.Outcome) { raise(out.Levels) }},
		"lost quotas are believed": {draw: eachQuota(func(q *limiter.Quota) { q.Recorded = false })},
		"losses are not told":      {answer: func(out *limiter.Outcome) { find(out.Quotas) }},
		"overage is not told":      {answer: func(out *limiter.Outcome) { deny(out.Quotas) }},
		"repeats are applied":      {noIDs: true},
		"returns save up refill":   {correct: func(a *limiter.Amendment) { a.Since = 0 }},
		"nothing is given back":    {correct: func(a *limiter.Amendment) { a.Tokens = min(0, a.Tokens) }},
		"nobody goes into debt":    {correct: func(a *limiter.Amendment) { a.Tokens = max(0, a.Tokens) }},
		"all leases are held":      {allHeld: true},
		"renewing needs no place":  {lease: func(l *limiter.Lease) { l.Max++ }},
		"renewals are too short":   {lease: func(l *limiter.Lease) { l.HoldMicros = (l.HoldMicros + 1) / 2 }},
		"releases do nothing":      {keepAll: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := NewManual()
			store := memstore.New(clock.Time)
			fault.Store = store
			w := World{Store: fault, Clock: clock, Flush: func(testing.TB) { store.Flush() }, Mark: func(testing.TB) { store.Mark() }}
			if found := w.tracesUntilFault(t, 60); found == 0 {
				t.Error("not found in 60 traces of 120 steps")
			}
		})
	}
}

// TestTraces_I23_FindAClockThatNeverGoesBack: a store that ignores a step back.
func TestTraces_I23_FindAClockThatNeverGoesBack(t *testing.T) {
	t.Parallel()
	clock, latest := NewManual(), time.Time{}
	store := memstore.New(func() time.Time {
		if now := clock.Time(); now.After(latest) {
			latest = now
		}
		return latest
	})
	w := World{Store: store, Clock: clock, Flush: func(testing.TB) { store.Flush(); latest = clock.Time() }, Mark: func(testing.TB) { store.Mark() }}
	if w.tracesUntilFault(t, 60) == 0 {
		t.Error("not found in 60 traces of 120 steps")
	}
}

// tracesUntilFault is after how many random traces the store differs from the
// model; 0 when it never does.
func (w World) tracesUntilFault(t *testing.T, most int) int {
	t.Helper()
	one := rapid.Custom(func(rt *rapid.T) string {
		if err := w.trace(t, rt, 120); err != nil {
			return err.Error()
		}
		return ""
	})
	for i := range most {
		if one.Example(i) != "" {
			return i + 1
		}
	}
	return 0
}

func TestTraces_I23_FindNothingWrongInARightStore(t *testing.T) {
	t.Parallel()
	clock := NewManual()
	store := memstore.New(clock.Time)
	w := World{Store: store, Clock: clock, Flush: func(testing.TB) { store.Flush() }, Mark: func(testing.TB) { store.Mark() }}
	if i := w.tracesUntilFault(t, 30); i != 0 {
		t.Errorf("trace %d differs", i)
	}
}

func widen(slots []limiter.Slot) {
	for i := range slots {
		slots[i].Max++
	}
}

func shorten(slots []limiter.Slot) {
	for i := range slots {
		slots[i].HoldMicros = (slots[i].HoldMicros + 1) / 2
	}
}

func hide(levels []limiter.Level) {
	for i := range levels {
		levels[i].Overflow = false
	}
}

func raise(levels []limiter.Level) {
	for i := range levels {
		levels[i].Units = max(0, levels[i].Units)
	}
}

func find(quotas []limiter.QuotaLevel) {
	for i := range quotas {
		quotas[i].Lost = false
	}
}

func deny(quotas []limiter.QuotaLevel) {
	for i := range quotas {
		quotas[i].Overage = false
	}
}
