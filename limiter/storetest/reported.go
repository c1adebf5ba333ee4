package storetest

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// reportedParts are faults that people reported of other limiters, with the
// numbers that a token bucket has for them.
func reportedParts() []part {
	return []part{
		{"R001_NoDoubleBurstAroundAnEdge", r001},
		{"R002_TheWaitIsAlwaysEnough", r002},
		{"R003_TheWaitStandsWhenNothingRemains", r003},
		{"R004_TheWaitIsTheTimeUntilAdmission", r004},
		{"R005_RemainingNeverFallsBelowZero", r005},
		{"R006_RefusedCallsAreNotCharged", r006},
		{"R007_ARefusalSpendsNothingAnywhere", r007},
		{"R009_ACostThatCanNeverPassTakesNothing", r009},
		{"R010_MixedCostsAddUp", r010},
		{"R011_SlowRatesAreExact", r011},
		{"R012_NeverMoreThanTheBurstAtOnce", r012},
		{"R013_LongIdleTimesDoNotOverflow", r013},
		{"R014_LargeNumbersAreExactToTheUnit", r014},
		{"R015_TheLastSecondOfAWaitIsRefused", r015},
		{"R019_ALoweredLimitClampsAndGoesOnRefilling", r019},
		{"R020_ZeroBlocksAndNothingElseDoes", r020},
		{"R022_AHotKeyRefusesNobodyWithBudgetLeft", r022},
		{"R024_TheWaitIsForTheNextTokenOnly", r024},
		{"R025_SteadyTrafficFarBelowTheLimitIsNeverRefused", r025},
		{"R030_AnEvenRateNeedsABurst", r030},
		{"R031_OddPeriodsAreExact", r031},
		{"R033_SteadyTrafficKeepsGettingItsRate", r033},
		{"R043_GatewaysClocksDoNotMatter", r043},
	}
}

// caller is one tenant that calls.
type caller struct {
	World
	t *testing.T
}

// draw charges one limit of the tenant ten_a.
func (c caller) draw(limit string, n policy.Numbers, cost int64) limiter.Outcome {
	c.t.Helper()
	return c.take(c.t, Draw(Tenant("ten_a"), limit, n, cost))
}

// admitted makes calls of cost 1 and counts those that pass.
func (c caller) admitted(calls int, n policy.Numbers) int {
	c.t.Helper()
	passed := 0
	for range calls {
		if c.draw("l", n, 1).Admitted {
			passed++
		}
	}
	return passed
}

// refusedFor wants a refusal whose wait is that many seconds, rounded up.
func (c caller) refusedFor(what string, out limiter.Outcome, seconds int64) {
	c.t.Helper()
	wait := limiter.Decision{RetryAfterMicros: largestWait(out)}
	if out.Admitted || wait.RetryAfterSeconds() != seconds {
		c.t.Errorf("%s: %+v, want a refusal for %d s", what, out, seconds)
	}
}

// passed wants an admission with that many whole tokens left.
func (c caller) passed(what string, out limiter.Outcome, n policy.Numbers, remaining int64) {
	c.t.Helper()
	if !out.Admitted || out.Levels[0].Remaining(n) != remaining {
		c.t.Errorf("%s: %+v, want an admission with %d left", what, out, remaining)
	}
}

func r001(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 100, time.Minute, 100)
	w.at(59 * time.Second)
	first := c.admitted(100, n)
	w.at(60500 * time.Millisecond)
	second := c.admitted(100, n)
	w.at(61 * time.Second)
	third := c.admitted(100, n)
	if first != 100 || second != 2 || third != 1 {
		t.Errorf("admitted %d, %d, %d; want 100, 2 (of 2.5 refilled), 1", first, second, third)
	}
}

func r002(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 1, 10*time.Second, 1)
	c.passed("t=0", c.draw("l", n, 1), n, 0)
	w.at(200 * time.Millisecond)
	c.refusedFor("t=0.2", c.draw("l", n, 1), 10)
	w.at(9900 * time.Millisecond)
	c.refusedFor("t=9.9", c.draw("l", n, 1), 1)
	w.at(10 * time.Second)
	c.passed("t=10", c.draw("l", n, 1), n, 0)
	w.at(20*time.Second + 200*time.Millisecond)
	c.passed("after the wait", c.draw("l", n, 1), n, 0)
}

func r003(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 2, time.Minute, 2)
	w.at(5 * time.Second)
	c.passed("first", c.draw("l", n, 1), n, 1)
	w.at(6 * time.Second)
	c.passed("second", c.draw("l", n, 1), n, 0)
	w.at(7 * time.Second)
	c.refusedFor("third", c.draw("l", n, 1), 28)
	w.at(34900 * time.Millisecond)
	c.refusedFor("fourth", c.draw("l", n, 1), 1)
	w.at(35 * time.Second)
	c.passed("fifth", c.draw("l", n, 1), n, 0)
}

func r004(t *testing.T, w World) {
	c := caller{w, t}
	for _, period := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		w.at(0)
		n, limit := rate(t, 1, period, 1), period.String()
		c.draw(limit, n, 1)
		for _, offset := range []time.Duration{period / 360, period / 7, period - time.Microsecond} {
			w.at(offset)
			want := int64((period - offset + time.Second - 1) / time.Second)
			c.refusedFor(limit+" at "+offset.String(), c.draw(limit, n, 1), want)
			if period == time.Hour && offset == 10*time.Second && want != 3590 {
				t.Errorf("an hour after 10 s: %d", want)
			}
		}
	}
}

func r005(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 5, time.Minute, 5)
	for i, want := range []int64{4, 3, 2, 1, 0, 0, 0, 0} {
		out := c.draw("l", n, 1)
		if out.Admitted != (i < 5) || out.Levels[0].Remaining(n) != want || out.Levels[0].Units < 0 {
			t.Errorf("call %d: %+v, want %d left", i, out, want)
		}
	}
}

func r006(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 10, time.Hour, 10)
	if got := c.admitted(50, n); got != 10 {
		t.Fatalf("%d of 50 admitted, want 10", got)
	}
	raised := rate(t, 20, time.Hour, 20)
	c.refusedFor("right after the raise: no fresh budget", c.draw("l", raised, 1), 180)
	w.at(30 * time.Minute)
	if got := c.admitted(12, raised); got != 10 {
		t.Errorf("%d of 12 admitted half an hour after the raise, want 10", got)
	}
}

// r007 has every kind of part refuse in turn, at either end of the draw.
func r007(t *testing.T, w World) {
	wide, narrow := rate(t, 10, time.Minute, 10), rate(t, 3, time.Minute, 3)
	for name, narrowed := range map[string]func(d *limiter.Draw, row limiter.Row){
		"first": func(d *limiter.Draw, row limiter.Row) {
			d.Charges = append([]limiter.Charge{Draw(row, "route:special.l", narrow, 1)}, d.Charges...)
		},
		"last": func(d *limiter.Draw, row limiter.Row) {
			d.Charges = append(d.Charges, Draw(row, "route:special.l", narrow, 1))
		},
		"slot":  func(d *limiter.Draw, _ limiter.Row) { d.Slots[0].Max = 3 },
		"quota": func(d *limiter.Draw, _ limiter.Row) { d.Quotas[0].Amount = 3 },
	} {
		row := Tenant("ten_" + name)
		plain := Draw(row, "plan.requests", wide, 1)
		passed, last := 0, limiter.Outcome{}
		for i := range 5 {
			special := limiter.Draw{
				Charges: []limiter.Charge{plain},
				Slots:   []limiter.Slot{slotOf(row, 9, i, time.Hour)},
				Quotas:  []limiter.Quota{blockingQuota(row, 9)},
			}
			narrowed(&special, row)
			if last = w.decide(t, special); last.Admitted {
				passed++
			}
		}
		if passed != 3 || last.Slots[0].Active != 3 || last.Quotas[0].Used != 3 {
			t.Errorf("%s: %d admitted, %+v; want 3 in all", name, passed, last)
		}
		for passed = 0; passed < 10 && w.take(t, plain).Admitted; {
			passed++
		}
		if passed != 7 {
			t.Errorf("%s: then %d plain calls admitted, want 7", name, passed)
		}
	}
}

func r009(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 60, time.Minute, 10)
	_, err := w.Store.Take(t.Context(), &limiter.Draw{Charges: []limiter.Charge{Draw(Tenant("ten_a"), "l", n, 11)}})
	uncountable(t, "cost 11", err)
	d := w.ask(t, w.limiter(t, 0), Draw(Tenant("ten_a"), "l", n, 11))
	if d.Allowed || d.Reason != limiter.ReasonCostExceedsBurst || d.RetryAfterMicros != 0 {
		t.Errorf("cost 11: %+v", d)
	}
	c.passed("cost 10", c.draw("l", n, 10), n, 0)
	c.refusedFor("cost 1", c.draw("l", n, 1), 1)
}

func r010(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 10, time.Minute, 10)
	for _, call := range []struct {
		at        time.Duration
		cost      int64
		admitted  bool
		remaining int64
	}{
		{0, 7, true, 3}, {time.Second, 2, true, 1}, {2 * time.Second, 2, false, 1},
		{3 * time.Second, 1, true, 0}, {4 * time.Second, 1, false, 0}, {60500 * time.Millisecond, 7, true, 3},
	} {
		w.at(call.at)
		out := c.draw("l", n, call.cost)
		if out.Admitted != call.admitted || out.Levels[0].Remaining(n) != call.remaining {
			t.Errorf("cost %d at %v: %+v", call.cost, call.at, out)
		}
	}
}
