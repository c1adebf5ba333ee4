package limiter_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func TestNew_ListsEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := limiter.New(limiter.Config{
		Budget: -1, FallbackEntries: -1, DenyEntries: -2,
		Breaker: limiter.BreakerConfig{Consecutive: -1, Window: -1, Ratio: 1},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, word := range []string{"Store", "Budget", "FallbackEntries", "DenyEntries", "counts", "durations", "Ratio"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error does not name %s: %v", word, err)
		}
	}
}

func TestNew_DefaultsSuffice(t *testing.T) {
	t.Parallel()
	l, err := limiter.New(limiter.Config{Store: &fakeStore{}})
	if err != nil || l.Degraded() || l.BreakerState() != "closed" {
		t.Fatalf("error %v degraded %t breaker %s", err, l.Degraded(), l.BreakerState())
	}
}

func TestDecide_NoLimitsNeedNoStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	d := r.decide(limiter.Request{Route: "r", Fail: closed})
	if takes, _ := r.store.asked(); !d.Allowed || d.Reason != limiter.ReasonAdmitted || d.Deciding != -1 || takes != 0 {
		t.Errorf("%+v after %d store calls", d, takes)
	}
}

func TestDecide_BlockedAndImpossibleNeedNoStore(t *testing.T) {
	t.Parallel()
	good := policy.Numbers{Tokens: 1, Period: 1000, Burst: 5}
	row := tenant("ten_a")
	for _, c := range []struct {
		name     string
		charges  []limiter.Charge
		reason   limiter.Reason
		deciding int
	}{
		{"rate 0", []limiter.Charge{
			charge(row, "a", good, 1), charge(row, "b", policy.Numbers{Period: 1, Burst: 5}, 1),
		}, limiter.ReasonBlocked, 1},
		{"burst 0", []limiter.Charge{
			charge(row, "a", policy.Numbers{Tokens: 1, Period: 1}, 1),
		}, limiter.ReasonBlocked, 0},
		{"blocked goes before impossible", []limiter.Charge{
			charge(row, "a", good, 6), charge(row, "b", policy.Numbers{Period: 1}, 1),
		}, limiter.ReasonBlocked, 1},
		{"cost over burst", []limiter.Charge{
			charge(row, "a", good, 5), charge(row, "b", good, 6),
		}, limiter.ReasonCostExceedsBurst, 1},
	} {
		for _, down := range []bool{false, true} {
			r := newRig(t, nil)
			if down {
				r.fail(5)
			}
			before, _ := r.store.asked()
			d := r.decide(limiter.Request{Route: "r", Draw: limiter.Draw{Charges: c.charges}, Fail: unlimited})
			after, _ := r.store.asked()
			if d.Allowed || d.Reason != c.reason || d.Deciding != c.deciding || d.RetryAfterMicros != 0 || d.Degraded {
				t.Errorf("%s, down %t: %+v", c.name, down, d)
			}
			if after != before {
				t.Errorf("%s, down %t: the store was asked", c.name, down)
			}
		}
	}
}

func TestDecide_LargestWaitDecides(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	row := tenant("ten_a")
	n := func(period int64) policy.Numbers { return policy.Numbers{Tokens: 1, Period: period, Burst: 1} }
	req := limiter.Request{Route: "r", Fail: closed, Draw: limiter.Draw{Charges: []limiter.Charge{
		charge(row, "a", n(1000), 1), charge(row, "b", n(9000), 1), charge(row, "c", n(10), 1),
	}}}
	if d := r.decide(req); !d.Allowed || d.Reason != limiter.ReasonAdmitted || d.Deciding != -1 || len(d.Levels) != 3 {
		t.Fatalf("first: %+v", d)
	}
	d := r.decide(req)
	if d.Allowed || d.Reason != limiter.ReasonLimit || d.Deciding != 1 || d.RetryAfterMicros != 9000 || d.Degraded {
		t.Errorf("second: %+v", d)
	}
}

// TestDecide_R046_AnswersThatContradictThemselvesAreFailures: neither an
// admission nor a refusal comes of a store's answer that cannot be right.
func TestDecide_R046_AnswersThatContradictThemselvesAreFailures(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]limiter.Outcome{
		"admitted without levels":     {Admitted: true},
		"too many levels":             {Admitted: true, Levels: make([]limiter.Level, 2)},
		"admitted with a wait":        {Admitted: true, Levels: []limiter.Level{{WaitMicros: 5}}},
		"refused without a wait":      {Levels: []limiter.Level{{Units: 5}}},
		"refused with negative wait":  {Levels: []limiter.Level{{WaitMicros: -5}}},
		"admitted with negative rest": {Admitted: true, Levels: []limiter.Level{{Units: -1}}},
	} {
		r := newRig(t, nil)
		r.store.answer = &answer
		for i := range 5 {
			if d := r.decide(request(closed)); d.Allowed || d.Reason != limiter.ReasonClosed || !d.Degraded || d.Levels != nil {
				t.Errorf("%s, call %d: %+v", name, i, d)
			}
		}
		if !r.Degraded() {
			t.Errorf("%s: not counted against the store", name)
		}
	}
}

func TestDecide_FailModesDecideWithoutTheStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		fail    policy.StoreFailure
		allowed bool
		reason  limiter.Reason
	}{
		{"closed", closed, false, limiter.ReasonClosed},
		{"open unlimited", unlimited, true, limiter.ReasonOpen},
		{"open within the fallback", within(1, 1), true, limiter.ReasonOpen},
		{"open with a fallback of 0", within(0, 0), false, limiter.ReasonFallback},
		{"open without a fallback admits nothing", policy.StoreFailure{Mode: policy.FailOpen}, false, limiter.ReasonClosed},
		{"no mode admits nothing", policy.StoreFailure{}, false, limiter.ReasonClosed},
		{"closed takes no fallback", policy.StoreFailure{Mode: policy.FailClosed, Fallback: unlimited.Fallback}, false, limiter.ReasonClosed},
	} {
		r := newRig(t, nil)
		r.store.set(errDown)
		d := r.decide(request(c.fail))
		if d.Allowed != c.allowed || d.Reason != c.reason || !d.Degraded || d.Levels != nil || d.Deciding != -1 || d.RetryAfterMicros != 0 {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

func TestDecide_UncountableChargesDoNotCountAgainstTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	req := request(closed)
	req.Draw.Charges[0].Cost = 0
	for range 50 {
		if d := r.decide(req); d.Allowed || d.Reason != limiter.ReasonClosed {
			t.Fatalf("%+v", d)
		}
	}
	if r.Degraded() {
		t.Error("charges that no store can count opened the breaker")
	}
}

func TestDecide_CallersThatGoAwayDoNotCountAgainstTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 50 {
		r.Decide(ctx, request(closed))
	}
	if r.Degraded() {
		t.Error("cancelled requests opened the breaker")
	}
}

func TestDecide_OneFailedCallOfManyRequestsCountsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for call := range 5 {
		if r.Degraded() {
			t.Fatalf("open after %d calls", call)
		}
		r.store.set(fmt.Errorf("%w (%w)", errDown, limiter.ErrCombined))
		for range 63 {
			if d := r.decide(request(closed)); !d.Degraded {
				t.Fatalf("%+v", d)
			}
		}
		r.fail(1)
	}
	if !r.Degraded() {
		t.Error("closed after 5 failed calls")
	}
}

// TestDecide_A23_OneBrokenRowDegradesItsOwnRequestsOnly: one tenant's row must not make
// a replica stop asking the store for all others.
func TestDecide_A23_OneBrokenRowDegradesItsOwnRequestsOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.store.set(fmt.Errorf("take: %w: %w", limiter.ErrStore, limiter.ErrRow))
	for range 100 {
		if d := r.decide(request(closed)); d.Allowed || !d.Degraded {
			t.Fatalf("%+v, want the fail mode", d)
		}
	}
	if r.Degraded() {
		t.Error("a broken row opened the breaker")
	}
}

// stuckStore answers nothing until its caller gives up.
type stuckStore struct{ limiter.Store }

func (stuckStore) Take(ctx context.Context, _ *limiter.Draw) (limiter.Outcome, error) {
	<-ctx.Done()
	return limiter.Outcome{}, fmt.Errorf("%w: %w", limiter.ErrStore, ctx.Err())
}

func (stuckStore) Ping(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestDecide_TakesNoLongerThanItsBudget(t *testing.T) {
	t.Parallel()
	l, err := limiter.New(limiter.Config{Store: stuckStore{}, Budget: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	d := l.Decide(context.Background(), request(closed))
	if took := time.Since(start); took < 10*time.Millisecond || took > 2*time.Second || d.Reason != limiter.ReasonClosed {
		t.Errorf("%+v after %v", d, took)
	}
}
