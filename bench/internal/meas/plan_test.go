package meas

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// measure runs the cases in rounds that are long enough for each caller to get a
// turn on a busy machine: operations let everybody else who wants to run go first,
// because callers loop without a pause and tests run beside each other.
func measure(ctx context.Context, rounds int, cases []Case) (map[string]*Result, error) {
	for i, c := range cases {
		cases[i].Op = func(ctx context.Context, caller int, i uint64) (Tally, error) {
			runtime.Gosched()
			return c.Op(ctx, caller, i)
		}
	}
	p := &Plan{Callers: 4, Rounds: rounds, Warm: time.Millisecond, Length: 100 * time.Millisecond, Progress: func(string, ...any) {}}
	return p.Run(ctx, cases)
}

func TestPlan_RoundsOfAllCasesTakeTurns(t *testing.T) {
	t.Parallel()
	var order []string
	mark := func(name string) Case {
		return Case{Name: name, Callers: 1,
			Op:     func(context.Context, int, uint64) (Tally, error) { return Tally{Decisions: 2, Admitted: 1}, nil },
			Before: func(context.Context) error { order = append(order, name); return nil },
		}
	}
	results, err := measure(t.Context(), 3, []Case{mark("a"), mark("b")})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "ababab" {
		t.Errorf("order is %s", got)
	}
	for _, name := range []string{"a", "b"} {
		r := results[name]
		if len(r.Rounds) != 3 || r.PerSecond() <= 0 || r.Admitted() != .5 || r.Quantile(.5) <= 0 {
			t.Errorf("%s: %d rounds, %v/s, %v admitted, p50 %v", name, len(r.Rounds), r.PerSecond(), r.Admitted(), r.Quantile(.5))
		}
	}
}

func TestPlan_AllCallersWorkAndAreTold(t *testing.T) {
	t.Parallel()
	var seen [4]atomic.Int64
	var begun sync.WaitGroup
	begun.Add(len(seen))
	_, err := measure(t.Context(), 1, []Case{{Name: "x", Op: func(_ context.Context, caller int, i uint64) (Tally, error) {
		if i == 0 {
			begun.Done()
		}
		if int64(i) != seen[caller].Add(1)-1 {
			return Tally{}, errors.New("numbers are not one after the other")
		}
		return Tally{Decisions: 1}, nil
	}, Counter: func(context.Context) (int64, error) {
		begun.Wait() // a busy machine may let a caller wait for longer than a round
		return 0, nil
	}, After: func(_ context.Context, r *Round) error { return r.FirstError }}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range seen {
		if seen[i].Load() == 0 {
			t.Errorf("caller %d did nothing", i)
		}
	}
}

func TestPlan_FailuresAreCountedAndNoDecisions(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	results, err := measure(t.Context(), 2, []Case{{Name: "x", Op: func(context.Context, int, uint64) (Tally, error) { return Tally{}, broken }}})
	if err != nil {
		t.Fatal(err)
	}
	n, first := results["x"].Failed()
	if n == 0 || !errors.Is(first, broken) {
		t.Errorf("%d failed, the first: %v", n, first)
	}
	if results["x"].PerSecond() != 0 || results["x"].CPU(Self) != 0 {
		t.Error("failures are counted as decisions")
	}
}

func TestPlan_StopsAtAProblemBesideTheOperation(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	op := func(context.Context, int, uint64) (Tally, error) { return Tally{Decisions: 1}, nil }
	for name, c := range map[string]Case{
		"before":  {Before: func(context.Context) error { return broken }},
		"after":   {After: func(context.Context, *Round) error { return broken }},
		"counter": {Counter: func(context.Context) (int64, error) { return 0, broken }},
		"process": {Processes: []Process{{Name: "gone", PID: 1 << 30}}},
	} {
		c.Name, c.Op = name, op
		_, err := measure(t.Context(), 1, []Case{c})
		if err == nil || (name != "process" && !errors.Is(err, broken)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := measure(ctx, 1, []Case{{Name: "x", Op: op}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := measure(t.Context(), 1, []Case{{Name: "x", Op: op}, {Name: "x", Op: op}}); err == nil {
		t.Error("two cases of one name were measured")
	}
}

func TestRound_CountsWhatWasUsed(t *testing.T) {
	t.Parallel()
	var counter int64
	var sink []byte
	results, err := measure(t.Context(), 1, []Case{{
		Name: "x", Callers: 1, Processes: []Process{{Name: "other", PID: os.Getppid()}},
		Op: func(context.Context, int, uint64) (Tally, error) {
			sink = make([]byte, 64<<10)
			return Tally{Decisions: 1, Took: time.Hour}, nil
		},
		Counter: func(context.Context) (int64, error) { counter += 1000; return counter, nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := results["x"]
	if got := r.Rounds[0].Counted; got != 1000 {
		t.Errorf("counted %d", got)
	}
	if r.Allocations() < 1 {
		t.Errorf("%v allocations a decision", r.Allocations())
	}
	if _, known := r.Rounds[0].CPU["other"]; !known {
		t.Error("the other process was not measured")
	}
	if p50 := r.Quantile(.5); p50 < 59*time.Minute {
		t.Errorf("the operation's own time was not taken: %v", p50)
	}
	_ = sink
}

func TestRatio_IsTheMedianOverRoundsOfTheSameNumber(t *testing.T) {
	t.Parallel()
	result := func(perSecond ...uint64) *Result {
		r := &Result{}
		for _, n := range perSecond {
			r.Rounds = append(r.Rounds, Round{Decisions: n, Elapsed: time.Second})
		}
		return r
	}
	// The machine was three times slower in the second round.
	if got := Ratio(result(300, 100, 300), result(100, 33, 150), (*Round).PerSecond); got < 2.99 || got > 3.04 {
		t.Errorf("ratio is %v, want 3", got)
	}
	if got := Ratio(result(1), result(0), (*Round).PerSecond); got != 0 {
		t.Errorf("ratio to nothing is %v", got)
	}
}

func TestMedian_IsTheLowerOfTwo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 1}, {[]float64{9, 1, 5}, 5}} {
		if got := Median(c.values); got != c.want {
			t.Errorf("median of %v is %v", c.values, got)
		}
	}
}
