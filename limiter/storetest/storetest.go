package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// Clock is the virtual clock that a store under test goes by.
type Clock interface {
	Now() int64              // Unix µs
	Advance(d time.Duration) // may be negative
}

// Manual is a Clock that stands still between calls of Advance. It is safe for
// concurrent use.
type Manual struct{ micros atomic.Int64 }

// NewManual makes a clock that stands at a day in 2026.
func NewManual() *Manual {
	m := &Manual{}
	m.micros.Store(time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC).UnixMicro())
	return m
}

// Now is the clock's time in Unix µs.
func (m *Manual) Now() int64 { return m.micros.Load() }

// Time is the clock's time.
func (m *Manual) Time() time.Time { return time.UnixMicro(m.Now()) }

// Advance moves the clock, backwards when d is negative.
func (m *Manual) Advance(d time.Duration) { m.micros.Add(d.Microseconds()) }

// World is a store under test.
type World struct {
	// Store goes by Clock alone. Nobody else uses what it stores.
	Store limiter.Store
	Clock Clock
	// Another makes a further client of the same state, as another gateway has
	// it. Nil: a Store is all there is to it.
	Another func() limiter.Store
	// Together decides several draws, of one lane, in one call of a store that
	// combines them: as if they came one after the other. Nil: it does not.
	Together func(ctx context.Context, draws []*limiter.Draw) ([]limiter.Outcome, []error)
	// Flush makes the store forget everything, as a flush of its servers does.
	Flush func(t testing.TB)
	// Mark says of all lanes that their counters of recorded quotas can be believed, as
	// the console does when it has rebuilt them. A flush takes it back.
	Mark func(t testing.TB)
	// Lane names the lane that a row lies in, where a store has lanes that it
	// cannot decide together (a Cluster); nil where it decides any rows together.
	Lane func(limiter.Row) string
	// Steps is the length of the random traces together. 0: DefaultSteps, or the
	// number in the environment variable HEADGATE_STEPS.
	Steps int
	// Fast: a call costs microseconds, so cases make as many as were reported.
	Fast bool
}

// another is a further client of the same state.
func (w World) another() limiter.Store {
	if w.Another == nil {
		return w.Store
	}
	return w.Another()
}

// part is one test of the suite.
type part struct {
	name string
	test func(*testing.T, World)
}

// Conform runs the suite: its parts one after the other in one world, which is
// emptied in between, because a Cluster for each of them would take minutes.
func Conform(t *testing.T, newWorld func(t *testing.T) World) {
	t.Helper()
	w := newWorld(t)
	for _, parts := range [][]part{
		traceParts(), bucketParts(), reportedParts(), changeParts(), errorParts(), slotParts(), quotaParts(), lostParts(), amendParts(), identifierParts(),
	} {
		for _, p := range parts {
			t.Run(p.name, func(t *testing.T) {
				w.at(0)
				w.Flush(t)
				p.test(t, w)
			})
		}
	}
}

// Tenant is the row of a tenant.
func Tenant(id string) limiter.Row { return limiter.Row{Kind: limiter.RowTenant, Tenant: id} }

// Draw is a charge of one limit.
func Draw(row limiter.Row, limit string, n policy.Numbers, cost int64) limiter.Charge {
	return limiter.Charge{Row: row, LimitID: limit, Hash: hash(limit), Numbers: n, Cost: cost}
}

// hash stands in for policy.LimitHash: FNV-1a is as good for telling names apart.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// perSecond are the numbers of n tokens a second.
func perSecond(n, burst int64) policy.Numbers {
	return policy.Numbers{Tokens: n, Period: 1_000_000, Burst: burst}
}

// rate are the numbers of tokens per period with a burst, as a policy says it.
func rate(t testing.TB, tokens int64, period time.Duration, burst int64) policy.Numbers {
	t.Helper()
	n, err := policy.NumbersOf(policy.Rate{Tokens: tokens, Period: period}, burst)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// decide makes a draw or fails the test.
func (w World) decide(t testing.TB, d limiter.Draw) limiter.Outcome {
	t.Helper()
	out, err := w.Store.Take(context.Background(), &d)
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	return out
}

// take draws from limits alone.
func (w World) take(t testing.TB, charges ...limiter.Charge) limiter.Outcome {
	t.Helper()
	return w.decide(t, limiter.Draw{Charges: charges})
}

func (w World) amend(t testing.TB, id string, corrections ...limiter.Amendment) {
	t.Helper()
	if err := w.Store.Amend(context.Background(), id, corrections); err != nil {
		t.Fatalf("amend: %v", err)
	}
}

func (w World) renew(t testing.TB, leases ...limiter.Lease) []bool {
	t.Helper()
	held, err := w.Store.Renew(context.Background(), leases)
	if err != nil {
		t.Fatalf("renew: %v", err)
	}
	return held
}

func (w World) release(t testing.TB, leases ...limiter.Lease) {
	t.Helper()
	if err := w.Store.Release(context.Background(), leases); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// start is the time at which clocks of tests begin.
func start() time.Time { return NewManual().Time() }

// at sets the clock to d after the start.
func (w World) at(d time.Duration) {
	w.Clock.Advance(start().Add(d).Sub(time.UnixMicro(w.Clock.Now())))
}

// wants fails the test when the outcome is not the one described.
func wants(t testing.TB, what string, got limiter.Outcome, admitted bool, levels ...limiter.Level) {
	t.Helper()
	if got.Admitted != admitted || fmt.Sprint(got.Levels) != fmt.Sprint(levels) {
		t.Errorf("%s: admitted %t levels %+v, want %t %+v", what, got.Admitted, got.Levels, admitted, levels)
	}
}
