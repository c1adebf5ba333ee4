package storetest

import (
	"context"
	"errors"
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
	// Store is empty and goes by Clock alone. Nobody else uses it.
	Store limiter.Store
	Clock Clock
	// Flush makes the store forget everything, as a flush of its server does.
	Flush func(t testing.TB)
	// Lane names the lane that a row lies in, where a store has lanes that it
	// cannot decide together (a Cluster); nil where it decides any rows together.
	Lane func(limiter.Row) string
	// Steps is the length of the random traces together; 0: DefaultSteps, or the
	// number in the environment variable HEADGATE_STEPS.
	Steps int
}

// DefaultSteps is the length of the random traces of one store together.
const DefaultSteps = 12_000

// Run runs the suite without what needs a World.
//
// Deprecated: Conform is the whole suite.
func Run(t *testing.T, newStore func(t *testing.T) (store limiter.Store, clock Clock)) {
	t.Helper()
	Conform(t, func(t *testing.T) World {
		store, clock := newStore(t)
		return World{Store: store, Clock: clock}
	})
}

// Conform runs the suite, each part of it in a world of its own.
func Conform(t *testing.T, newWorld func(t *testing.T) World) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, limiter.Store, Clock)
	}{
		{"AgreesWithTheModelOnRandomTraces", agreesWithModel},
		{"AdmitsNoMoreThanBurstPlusRefill", boundHolds},
		{"WaitIsExact", waitIsExact},
		{"FrozenClockAdmitsExactlyTheBurst", frozenClock},
		{"RefusalSpendsNothingAnywhere", refusalSpendsNothing},
		{"RaisedRateTakesEffectAfterARefusal", raisedRateTakesEffect},
		{"ChangedNumbersCarryTokensOver", carriesOver},
		{"ClockThatStepsBackDelaysNobody", clockStepsBack},
		{"RowsAreApart", rowsAreApart},
		{"LimitsOfOneRowAreApart", limitsAreApart},
		{"LargestNumbersAreExact", largestNumbers},
		{"UncountableChargesAreErrors", uncountable},
		{"EndedContextIsAnError", endedContext},
		{"PingSucceeds", pings},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.test(t, w.Store, w.Clock)
		})
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

// take decides or fails the test.
func take(t testing.TB, s limiter.Store, charges ...limiter.Charge) limiter.Outcome {
	t.Helper()
	out, err := s.Take(context.Background(), &limiter.Draw{Charges: charges})
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	return out
}

// wants fails the test when the outcome is not the one described.
func wants(t testing.TB, what string, got limiter.Outcome, admitted bool, levels ...limiter.Level) {
	t.Helper()
	if got.Admitted != admitted || fmt.Sprint(got.Levels) != fmt.Sprint(levels) {
		t.Errorf("%s: admitted %t levels %v, want %t %v", what, got.Admitted, got.Levels, admitted, levels)
	}
}

func uncountable(t *testing.T, s limiter.Store, _ Clock) {
	good := policy.Numbers{Tokens: 1, Period: 1000, Burst: 5}
	row := Tenant("ten_a")
	for name, charges := range map[string][]limiter.Charge{
		"no tokens":         {Draw(row, "l", policy.Numbers{Period: 1000, Burst: 5}, 1)},
		"no burst":          {Draw(row, "l", policy.Numbers{Tokens: 1, Period: 1000}, 1)},
		"no period":         {Draw(row, "l", policy.Numbers{Tokens: 1, Burst: 5}, 1)},
		"period too long":   {Draw(row, "l", policy.Numbers{Tokens: 1, Period: policy.MaxPeriod.Microseconds() + 1, Burst: 1}, 1)},
		"negative tokens":   {Draw(row, "l", policy.Numbers{Tokens: -1, Period: 1, Burst: 5}, 1)},
		"negative burst":    {Draw(row, "l", policy.Numbers{Tokens: 1, Period: 1, Burst: -5}, 1)},
		"over 2^53":         {Draw(row, "l", policy.Numbers{Tokens: 1, Period: 1 << 40, Burst: 1 << 13}, 1)},
		"cost 0":            {Draw(row, "l", good, 0)},
		"negative cost":     {Draw(row, "l", good, -1)},
		"cost over burst":   {Draw(row, "l", good, 6)},
		"limit named twice": {Draw(row, "l", good, 1), Draw(row, "l", good, 1)},
	} {
		_, err := s.Take(context.Background(), &limiter.Draw{Charges: charges})
		if !errors.Is(err, limiter.ErrStore) || !errors.Is(err, limiter.ErrCharges) {
			t.Errorf("%s: error %v, want ErrStore and ErrCharges", name, err)
		}
	}
}

func endedContext(t *testing.T, s limiter.Store, _ Clock) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n := policy.Numbers{Tokens: 1, Period: 1000, Burst: 5}
	if _, err := s.Take(ctx, &limiter.Draw{Charges: []limiter.Charge{Draw(Tenant("ten_a"), "l", n, 1)}}); !errors.Is(err, limiter.ErrStore) {
		t.Errorf("take: error %v, want ErrStore", err)
	}
	if err := s.Ping(ctx); !errors.Is(err, limiter.ErrStore) {
		t.Errorf("ping: error %v, want ErrStore", err)
	}
}

func pings(t *testing.T, s limiter.Store, _ Clock) {
	for range 3 {
		if err := s.Ping(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
