package webtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// State plays the limiter's state in Redis: what is planted, by row and limit.
type State struct {
	now func() time.Time

	mu     sync.Mutex
	down   bool
	held   map[string]*limiter.Held
	strays []limiter.Stray
}

// NewState returns an empty State: every bucket is full.
func NewState(now func() time.Time) *State {
	return &State{now: now, held: map[string]*limiter.Held{}}
}

func placeOf(a *limiter.Ask) string { return fmt.Sprintf("%v/%x/%d", a.Row, a.Hash, a.Part) }

// Plant puts state.
func (s *State) Plant(a limiter.Ask, h limiter.Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.Found = true
	s.held[placeOf(&a)] = &h
}

// PlantStrays puts keys without a TTL.
func (s *State) PlantStrays(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays = nil
	for _, k := range keys {
		s.strays = append(s.strays, limiter.Stray{Key: k, Type: "string"})
	}
}

// Down makes every call fail, as when Redis is away.
func (s *State) Down(down bool) { s.mu.Lock(); defer s.mu.Unlock(); s.down = down }

func (s *State) read(a *limiter.Ask) limiter.Held {
	h := limiter.Held{TTLMillis: -2, Numbers: a.Numbers, Units: a.Numbers.Burst * a.Numbers.Period}
	if at := s.held[placeOf(a)]; at != nil {
		h = *at
		h.Numbers = a.Numbers
	}
	h.NowMicros = s.now().UnixMicro()
	return h
}

func (s *State) each(n int, do func(i int) limiter.Adjusted) ([]limiter.Adjusted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errors.Join(limiter.ErrStore, ErrDown)
	}
	out := make([]limiter.Adjusted, n)
	for i := range out {
		out[i] = do(i)
	}
	return out, nil
}

// Inspect implements console.LimiterState.
func (s *State) Inspect(_ context.Context, asks []limiter.Ask) ([]limiter.Held, error) {
	told, err := s.each(len(asks), func(i int) limiter.Adjusted { return limiter.Adjusted{Before: s.read(&asks[i])} })
	held := make([]limiter.Held, len(told))
	for i := range told {
		held[i] = told[i].Before
	}
	return held, err
}

// Adjust implements console.LimiterState.
func (s *State) Adjust(_ context.Context, adjustments []limiter.Adjustment) ([]limiter.Adjusted, error) {
	return s.each(len(adjustments), func(i int) limiter.Adjusted {
		a := &adjustments[i]
		floor, ceiling, err := a.Units()
		if err != nil {
			panic(err)
		}
		out := limiter.Adjusted{Before: s.read(&a.Ask)}
		h := out.Before
		h.Found, h.Units = true, max(min(h.Units, ceiling), floor)
		s.held[placeOf(&a.Ask)] = &h
		out.After = s.read(&a.Ask)
		return out
	})
}

// Clear implements console.LimiterState.
func (s *State) Clear(_ context.Context, asks []limiter.Ask) ([]limiter.Adjusted, error) {
	return s.each(len(asks), func(i int) limiter.Adjusted {
		out := limiter.Adjusted{Before: s.read(&asks[i])}
		delete(s.held, placeOf(&asks[i]))
		out.After = s.read(&asks[i])
		return out
	})
}

// EndLeases implements console.LimiterState.
func (s *State) EndLeases(_ context.Context, ask limiter.Ask, names []string) (limiter.Adjusted, error) {
	out, err := s.each(1, func(int) limiter.Adjusted {
		before := s.read(&ask)
		if h := s.held[placeOf(&ask)]; h != nil {
			h.Leases = slices.DeleteFunc(slices.Clone(h.Leases), func(l limiter.HeldLease) bool { return slices.Contains(names, l.ID) })
			h.Active = int64(len(h.Leases))
		}
		return limiter.Adjusted{Before: before, After: s.read(&ask)}
	})
	if err != nil {
		return limiter.Adjusted{}, err
	}
	return out[0], nil
}

// Strays implements console.StrayState.
func (s *State) Strays(context.Context, *limiter.ScanPlace, int) ([]limiter.Stray, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, false, ErrDown
	}
	return slices.Clone(s.strays), true, nil
}

// Repair implements console.StrayState.
func (s *State) Repair(_ context.Context, keys []string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return 0, ErrDown
	}
	before := len(s.strays)
	s.strays = slices.DeleteFunc(s.strays, func(k limiter.Stray) bool { return slices.Contains(keys, k.Key) })
	return before - len(s.strays), nil
}

// Tell has a gateway tell whom it refused.
func (f *Feed) Tell(r *usage.RefusedReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refused == nil {
		f.refused = map[string]*usage.RefusedReport{}
	}
	f.refused[r.Replica] = r
}

// Refused implements console.RefusedFeed.
func (f *Feed) Refused(_ context.Context, replicas []string) ([]*usage.RefusedReport, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil, ErrDown
	}
	var out []*usage.RefusedReport
	for _, id := range replicas {
		if r := f.refused[id]; r != nil {
			out = append(out, r)
		}
	}
	return out, nil
}

// ForgetRefusals implements console.RefusalFeed.
func (f *Feed) ForgetRefusals(_ context.Context, groups []int) (policy.Place, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return policy.Place{}, ErrDown
	}
	f.forgotten = append(f.forgotten, groups...)
	f.place.Seq += int64(len(groups))
	f.apply()
	return f.place, nil
}

// Forgotten are the groups of subjects whose refusals were to be forgotten.
func (f *Feed) Forgotten() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.forgotten)
}

// LookForStrays has the console look once for keys without a TTL.
func (w *World) LookForStrays(t testing.TB) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- w.Web.Lockouts.Run(ctx) }()
	for len(w.Web.Lockouts.Strays().Keys) == 0 && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond) // the looking has no signal
	}
	stop()
	must(t, <-done)
}
