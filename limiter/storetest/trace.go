package storetest

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// traceSteps is the length of one random trace; rapid makes 100 of them unless
// told otherwise.
const traceSteps = 120

// year in µs bounds a step of the clock, so that a trace stays within the times
// that can be counted.
const year = 365 * 86_400_000_000

// What traces are drawn from.
//
//nolint:gochecknoglobals // tables that nothing writes to
var (
	somePeriods = []int64{1, 3, 7, 1000, 999_983, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000, 2_678_400_000_000}
	someTokens  = []int64{1, 2, 3, 10, 997, 1_000_000, 1 << 30, 1<<40 - 87}
	someRows    = []limiter.Row{
		Tenant("ten_a"), Tenant("ten_b"), {Kind: limiter.RowGlobal},
		{Kind: limiter.RowCredential, Tenant: "ten_a", Subject: "crd_1"}, {Kind: limiter.RowIP, Subject: "192.0.2.1"},
	}
	someLimits = []string{"plan.requests", "shared:search", "route:report.reports", "global.all"}
)

// anyNumbers draws numbers from one token a month to a token a µs, with bursts
// up to what can be counted.
func anyNumbers(t *rapid.T) policy.Numbers {
	n := policy.Numbers{
		Tokens: rapid.SampledFrom(someTokens).Draw(t, "tokens"),
		Period: rapid.SampledFrom(somePeriods).Draw(t, "period"),
	}
	most := min((policy.MaxUnits-1-n.Tokens)/n.Period, 1<<48-1)
	if rapid.Bool().Draw(t, "small burst") {
		most = min(most, 12)
	}
	n.Burst = rapid.Int64Range(1, most).Draw(t, "burst")
	return n
}

// step is one request at some time after the one before.
type step struct {
	move    func(lastWait int64) int64 // µs
	charges []limiter.Charge
}

func anyStep(palette []policy.Numbers) *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		s := step{move: anyMove(t)}
		limits := rapid.IntRange(1, 4).Draw(t, "limits")
		for i := range limits {
			n := rapid.SampledFrom(palette).Draw(t, "numbers")
			cost := rapid.Int64Range(1, n.Burst).Draw(t, "cost")
			row := rapid.SampledFrom(someRows).Draw(t, "row")
			s.charges = append(s.charges, Draw(row, someLimits[i], n, cost))
		}
		return s
	})
}

// anyMove draws how the clock goes on: not at all, by a little, by exactly what
// the last refusal said or a µs less, by much, or back.
func anyMove(t *rapid.T) func(int64) int64 {
	by := rapid.Int64Range(0, 2_000_000).Draw(t, "by")
	switch rapid.IntRange(0, 8).Draw(t, "move") {
	case 0, 1:
		return func(int64) int64 { return 0 }
	case 2, 3:
		return func(last int64) int64 { return min(last, year) }
	case 4:
		return func(last int64) int64 { return max(0, min(last, year)-1) }
	case 5:
		return func(int64) int64 { return -by }
	case 6:
		return func(int64) int64 { return by * 5_000_000 } // up to 115 days
	}
	return func(int64) int64 { return by }
}

// agreesWithModel: on random traces with changing numbers and a clock that goes
// forward and back, every answer is the model's.
func agreesWithModel(t *testing.T, s limiter.Store, clock Clock) {
	trace := 0
	rapid.Check(t, func(rt *rapid.T) {
		trace++ // subjects of its own: the store is not emptied between traces
		prefix := fmt.Sprintf("%d-", trace)
		defer rewind(clock)()
		palette := rapid.SliceOfN(rapid.Custom(anyNumbers), 1, 4).Draw(rt, "palette")
		steps := rapid.SliceOfN(anyStep(palette), traceSteps, traceSteps).Draw(rt, "steps")
		model, lastWait := NewModel(), int64(0)
		for i, st := range steps {
			clock.Advance(time.Duration(st.move(lastWait)) * time.Microsecond)
			charges := inTrace(prefix, st.charges)
			got, err := s.Take(t.Context(), &limiter.Draw{Charges: charges})
			if err != nil {
				rt.Fatalf("step %d: %v", i, err)
			}
			want := model.Take(clock.Now(), charges)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("step %d: %+v\ngot  %v\nwant %v", i, charges, got, want)
			}
			lastWait = 0
			for _, level := range want.Levels {
				lastWait = max(lastWait, level.WaitMicros)
			}
		}
	})
}

// rewind remembers the clock's time and returns what sets it back to it.
func rewind(clock Clock) func() {
	start := clock.Now()
	return func() { clock.Advance(time.Duration(start-clock.Now()) * time.Microsecond) }
}

func inTrace(prefix string, charges []limiter.Charge) []limiter.Charge {
	own := make([]limiter.Charge, len(charges))
	for i, c := range charges {
		own[i] = c
		own[i].Hash = hash(prefix + c.LimitID)
		if c.Row.Kind != limiter.RowGlobal {
			own[i].Row.Tenant, own[i].Row.Subject = prefix+c.Row.Tenant, prefix+c.Row.Subject
		}
	}
	return own
}

// boundHolds: over any interval a caller gets at most burst + rate×time.
func boundHolds(t *testing.T, s limiter.Store, clock Clock) {
	subject := 0
	rapid.Check(t, func(rt *rapid.T) {
		subject++
		n := anyNumbers(rt)
		row := Tenant(fmt.Sprintf("bound-%d", subject))
		defer rewind(clock)()
		type grant struct{ at, cost int64 }
		var grants []grant
		for i := range 40 {
			clock.Advance(time.Duration(rapid.Int64Range(0, 3*n.Period/n.Tokens+2).Draw(rt, "pause")) * time.Microsecond)
			cost := min(n.Burst, rapid.Int64Range(1, 3).Draw(rt, "cost"))
			out := take(t, s, Draw(row, "l", n, cost))
			if out.Admitted {
				grants = append(grants, grant{out.NowMicros, cost})
			}
			if i == 0 && !out.Admitted {
				rt.Fatal("a fresh bucket refused")
			}
		}
		for from := range grants {
			sum := int64(0)
			for _, g := range grants[from:] {
				sum += g.cost
				refill := product(g.at-grants[from].at, n.Tokens)
				if bound := refill.Div(refill, big.NewInt(n.Period)).Int64() + n.Burst; sum > bound {
					rt.Fatalf("%+v: admitted %d over %d µs, at most %d", n, sum, g.at-grants[from].at, bound)
				}
			}
		}
	})
}

// waitIsExact: after a refusal the same request is refused 1 µs before the wait
// is over and admitted when it is.
func waitIsExact(t *testing.T, s limiter.Store, clock Clock) {
	subject := 0
	rapid.Check(t, func(rt *rapid.T) {
		subject++
		row := Tenant(fmt.Sprintf("wait-%d", subject))
		defer rewind(clock)()
		var charges []limiter.Charge
		for i := range rapid.IntRange(1, 3).Draw(rt, "limits") {
			n := anyNumbers(rt)
			charges = append(charges, Draw(row, someLimits[i], n, rapid.Int64Range(1, n.Burst).Draw(rt, "cost")))
		}
		var wait int64
		for tries := 0; wait == 0 && tries < 64; tries++ {
			wait = largestWait(take(t, s, charges...))
		}
		if wait == 0 || wait > 1e15 {
			return // a large burst against a small cost: nothing was refused
		}
		clock.Advance(time.Duration(wait-1) * time.Microsecond)
		early := take(t, s, charges...)
		clock.Advance(time.Microsecond)
		due := take(t, s, charges...)
		if early.Admitted || largestWait(early) != 1 || !due.Admitted {
			rt.Fatalf("%+v: wait %d µs: 1 µs early %+v, then %+v", charges, wait, early, due)
		}
	})
}

func largestWait(out limiter.Outcome) int64 {
	wait := int64(0)
	for _, level := range out.Levels {
		wait = max(wait, level.WaitMicros)
	}
	return wait
}
