package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/storetest"
	"github.com/headgate/headgate/policy"
)

func TestLimiter_R001_NoDoubleBurstAroundAnEdge(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 100, time.Minute, 100)
		w.at(59 * time.Second)
		first := w.admitted(100, n)
		w.at(60500 * time.Millisecond)
		second := w.admitted(100, n)
		w.at(61 * time.Second)
		third := w.admitted(100, n)
		if first != 100 || second != 2 || third != 1 {
			t.Errorf("admitted %d, %d, %d; want 100, 2 (of 2.5 refilled), 1", first, second, third)
		}
	})
}

func TestLimiter_R002_RetryAfterIsAlwaysEnough(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 1, 10*time.Second, 1)
		w.passed("t=0", w.draw("l", n, 1), n, 0)
		w.at(200 * time.Millisecond)
		w.refusedFor("t=0.2", w.draw("l", n, 1), 10)
		w.at(9900 * time.Millisecond)
		w.refusedFor("t=9.9", w.draw("l", n, 1), 1)
		w.at(10 * time.Second)
		w.passed("t=10", w.draw("l", n, 1), n, 0)
		w.at(20*time.Second + 200*time.Millisecond)
		w.passed("after the wait", w.draw("l", n, 1), n, 0)
	})
}

func TestLimiter_R003_RetryAfterStandsWhenNothingRemains(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 2, time.Minute, 2)
		w.at(5 * time.Second)
		w.passed("first", w.draw("l", n, 1), n, 1)
		w.at(6 * time.Second)
		w.passed("second", w.draw("l", n, 1), n, 0)
		w.at(7 * time.Second)
		w.refusedFor("third", w.draw("l", n, 1), 28)
		w.at(34900 * time.Millisecond)
		w.refusedFor("fourth", w.draw("l", n, 1), 1)
		w.at(35 * time.Second)
		w.passed("fifth", w.draw("l", n, 1), n, 0)
	})
}

func TestLimiter_R004_RetryAfterIsSecondsUntilAdmission(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		for _, period := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
			w.at(0)
			n := rate(t, 1, period, 1)
			limit := period.String()
			w.draw(limit, n, 1)
			for _, offset := range []time.Duration{period / 360, period / 7, period - time.Microsecond} {
				w.at(offset)
				want := int64((period - offset + time.Second - 1) / time.Second)
				w.refusedFor(limit+" at "+offset.String(), w.draw(limit, n, 1), want)
				if limit == "1h0m0s" && offset == 10*time.Second && want != 3590 {
					t.Errorf("an hour after 10 s: %d", want)
				}
			}
		}
	})
}

func TestLimiter_R005_RemainingNeverFallsBelowZero(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 5, time.Minute, 5)
		for i, want := range []int64{4, 3, 2, 1, 0, 0, 0, 0} {
			d := w.draw("l", n, 1)
			if d.Allowed != (i < 5) || d.Levels[0].Remaining(n) != want || d.Levels[0].Units < 0 {
				t.Errorf("call %d: %+v, want %d left", i, d, want)
			}
		}
	})
}

func TestLimiter_R006_RefusedCallsAreNotCharged(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 10, time.Hour, 10)
		if got := w.admitted(50, n); got != 10 {
			t.Fatalf("%d of 50 admitted, want 10", got)
		}
		raised := rate(t, 20, time.Hour, 20)
		w.refusedFor("right after the raise: no fresh budget", w.draw("l", raised, 1), 180)
		w.at(30 * time.Minute)
		if got := w.admitted(12, raised); got != 10 {
			t.Errorf("%d of 12 admitted half an hour after the raise, want 10", got)
		}
	})
}

func TestLimiter_R007_ARefusalSpendsNothingAnywhere(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		tenant, route := rate(t, 10, time.Minute, 10), rate(t, 3, time.Minute, 3)
		for _, name := range []string{"ten_first", "ten_last"} {
			row := storetest.Tenant(name)
			wide := storetest.Draw(row, "plan.requests", tenant, 1)
			both := []limiter.Charge{wide, storetest.Draw(row, "route:special.l", route, 1)}
			if name == "ten_last" {
				both[0], both[1] = both[1], both[0]
			}
			special, plain := 0, 0
			for range 5 {
				if w.all(both...).Allowed {
					special++
				}
			}
			for range 10 {
				if w.all(wide).Allowed {
					plain++
				}
			}
			if special != 3 || plain != 7 {
				t.Errorf("%s: %d and %d admitted, want 3 and 7", name, special, plain)
			}
		}
	})
}

func TestLimiter_R009_ACostThatCanNeverPassHasNoWait(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 60, time.Minute, 10)
		if d := w.draw("l", n, 11); d.Allowed || d.Reason != limiter.ReasonCostExceedsBurst || d.RetryAfterMicros != 0 {
			t.Errorf("cost 11: %+v", d)
		}
		w.passed("cost 10", w.draw("l", n, 10), n, 0)
		w.refusedFor("cost 1", w.draw("l", n, 1), 1)
	})
}

func TestLimiter_R010_MixedCostsAddUp(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 10, time.Minute, 10)
		for _, c := range []struct {
			at        time.Duration
			cost      int64
			allowed   bool
			remaining int64
		}{
			{0, 7, true, 3}, {time.Second, 2, true, 1}, {2 * time.Second, 2, false, 1},
			{3 * time.Second, 1, true, 0}, {4 * time.Second, 1, false, 0}, {60500 * time.Millisecond, 7, true, 3},
		} {
			w.at(c.at)
			d := w.draw("l", n, c.cost)
			if d.Allowed != c.allowed || d.Levels[0].Remaining(n) != c.remaining {
				t.Errorf("cost %d at %v: %+v", c.cost, c.at, d)
			}
		}
	})
}

func TestLimiter_R011_SlowRatesAreExact(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 10, time.Hour, 1)
		step := time.Second
		if w.redis {
			step = 10 * time.Second // the same day in fewer calls
		}
		passed := 0
		for at := time.Duration(0); at < 24*time.Hour; at += step {
			w.at(at)
			passed += w.admitted(1, n)
		}
		if passed != 240 {
			t.Errorf("%d admitted in a day, want 240", passed)
		}
		w.draw("other", n, 1)
		start := w.clock.Time()
		w.clock.Advance(359900 * time.Millisecond)
		w.refusedFor("359.9 s later", w.draw("other", n, 1), 1)
		w.clock.Advance(start.Add(360 * time.Second).Sub(w.clock.Time()))
		w.passed("360 s later", w.draw("other", n, 1), n, 0)
	})
}

func TestLimiter_R012_NeverMoreThanTheBurstAtOnce(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 3, time.Second, 3)
		var passed []time.Duration
		for i := range 100 {
			at := time.Duration(i) * 100 * time.Millisecond
			w.at(at)
			d := w.draw("l", n, 1)
			if d.Levels[0].Remaining(n) > 3 {
				t.Errorf("%v: %d left of 3", at, d.Levels[0].Remaining(n))
			}
			if d.Allowed {
				passed = append(passed, at)
			}
		}
		if len(passed) != 32 {
			t.Errorf("%d admitted in 9.9 s, want 32", len(passed))
		}
		for i := 6; i < len(passed); i++ {
			if passed[i]-passed[i-6] < time.Second {
				t.Errorf("7 admitted within %v", passed[i]-passed[i-6])
			}
		}
	})
}

func TestLimiter_R013_LongIdleTimesDoNotOverflow(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		for _, perSecond := range []int64{1_000_000, 1_000_000_000} {
			n := rate(t, perSecond, time.Second, perSecond)
			for _, idle := range []time.Duration{12 * time.Hour, 10 * 365 * 24 * time.Hour} {
				limit := idle.String()
				w.at(0)
				w.passed("empty it", w.draw(limit, n, perSecond), n, 0)
				w.at(idle)
				w.passed("after "+limit, w.draw(limit, n, 1), n, perSecond-1)
			}
		}
	})
}

func TestLimiter_R014_LargeNumbersAreExactToTheUnit(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := policy.Numbers{Tokens: 1, Period: 31, Burst: 1<<48 - 1}
		w.passed("nearly all", w.draw("l", n, n.Burst-2), n, 2)
		w.passed("one", w.draw("l", n, 1), n, 1)
		w.passed("the last", w.draw("l", n, 1), n, 0)
		d := w.draw("l", n, 1)
		if d.Allowed || d.RetryAfterMicros != 31 {
			t.Errorf("beyond: %+v", d)
		}
		if d.NowMicros != w.clock.Now() {
			t.Errorf("time came back as %d, want %d", d.NowMicros, w.clock.Now())
		}
		_, err := w.store.Take(context.Background(), &limiter.Draw{Charges: []limiter.Charge{
			storetest.Draw(storetest.Tenant("ten_a"), "l", policy.Numbers{Tokens: 33, Period: 32, Burst: 1<<48 - 1}, 1),
		}})
		if err == nil {
			t.Error("2^53 units were taken for countable")
		}
	})
}

func TestLimiter_R015_TheLastSecondOfAWaitIsRefused(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 2, time.Second, 1)
		w.passed("t=0", w.draw("l", n, 1), n, 0)
		w.at(400 * time.Millisecond)
		w.refusedFor("t=0.4", w.draw("l", n, 1), 1)
		w.at(500 * time.Millisecond)
		w.passed("t=0.5", w.draw("l", n, 1), n, 0)
		slow := rate(t, 1, 10*time.Second, 1)
		w.at(0)
		w.draw("slow", slow, 1)
		for at := 9 * time.Second; at < 10*time.Second; at += 50 * time.Millisecond {
			w.at(at)
			w.refusedFor(at.String(), w.draw("slow", slow, 1), 1)
		}
		w.at(10 * time.Second)
		w.passed("when it is over", w.draw("slow", slow, 1), slow, 0)
	})
}

func TestLimiter_R019_ALoweredLimitClampsAndGoesOnRefilling(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		hundred, fifty := rate(t, 100, time.Hour, 100), rate(t, 50, time.Hour, 50)
		w.passed("80 of 100 left", w.draw("l", hundred, 20), hundred, 80)
		w.passed("clamped to 50", w.draw("l", fifty, 1), fifty, 49)
		if got := w.admitted(60, fifty); got != 49 {
			t.Errorf("%d more admitted, want 49", got)
		}
		w.refusedFor("empty at 50 an hour", w.draw("l", fifty, 1), 72)
		w.at(time.Hour)
		if got := w.admitted(51, fifty); got != 50 {
			t.Errorf("an hour later %d admitted, want 50", got)
		}
		w.refusedFor("raised while empty", w.draw("l", hundred, 1), 36)
		w.at(90 * time.Minute)
		if got := w.admitted(51, hundred); got != 50 {
			t.Errorf("half an hour after the raise %d admitted, want 50", got)
		}
	})
}

func TestLimiter_R020_ZeroBlocksAndNothingElseDoes(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		for _, n := range []policy.Numbers{{}, {Period: 1, Burst: 5}, {Tokens: 1, Period: 1}} {
			if d := w.draw("l", n, 1); d.Allowed || d.Reason != limiter.ReasonBlocked || d.RetryAfterMicros != 0 {
				t.Errorf("%+v: %+v", n, d)
			}
		}
		if d := w.all(); !d.Allowed { // an unlimited limit is no charge at all
			t.Errorf("no charges: %+v", d)
		}
		d := w.Decide(context.Background(), limiter.Request{Fail: closed, Draw: limiter.Draw{Charges: []limiter.Charge{
			storetest.Draw(storetest.Tenant("ten_a"), "l", policy.Numbers{Tokens: -1, Period: 1, Burst: 5}, 1),
		}}})
		if d.Allowed {
			t.Errorf("a limit of -1 admits: %+v", d)
		}
	})
}

func TestLimiter_R024_TheWaitIsForTheNextTokenOnly(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 2, time.Minute, 2)
		w.draw("l", n, 1)
		w.at(10 * time.Second)
		w.draw("l", n, 1)
		w.at(20 * time.Second)
		w.refusedFor("T0+20", w.draw("l", n, 1), 10)
		w.at(29 * time.Second)
		w.refusedFor("a second early", w.draw("l", n, 1), 1)
		w.at(30 * time.Second)
		w.passed("when it is over", w.draw("l", n, 1), n, 0)
	})
}

func TestLimiter_R025_SteadyTrafficFarBelowTheLimitIsNeverRefused(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 3000, time.Second, 3000)
		calls := 30_000
		if w.redis {
			calls = 5_000
		}
		for i := range calls {
			w.clock.Advance(2 * time.Millisecond)
			if d := w.draw("l", n, 1); !d.Allowed {
				t.Fatalf("call %d: %+v", i, d)
			}
		}
	})
}

func TestLimiter_R031_OddPeriodsAreExact(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		for _, period := range []time.Duration{500 * time.Millisecond, 600001 * time.Millisecond, 90 * time.Minute} {
			w.at(0)
			n := rate(t, 3, period, 3)
			limit := period.String()
			for left := int64(2); left >= 0; left-- {
				w.passed(limit, w.draw(limit, n, 1), n, left)
			}
			d := w.draw(limit, n, 1)
			if exact := (period.Microseconds() + 2) / 3; d.Allowed || d.RetryAfterMicros != exact {
				t.Errorf("%s: %+v, want a wait of %d µs", limit, d, exact)
			}
			w.at(period)
			w.passed(limit+" later", w.draw(limit, n, 3), n, 0)
		}
	})
}

func TestLimiter_R033_SteadyTrafficKeepsGettingItsRate(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 5, time.Minute, 5)
		passed := 0
		for second := range 300 {
			w.at(time.Duration(second) * time.Second)
			passed += w.admitted(1, n)
		}
		if passed != 5+24 { // the burst, and a token every 12 s until 299 s
			t.Errorf("%d admitted in 299 s, want 29", passed)
		}
	})
}

func TestLimiter_R043_GatewaysClocksDoNotMatter(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, w world) {
		n := rate(t, 2, time.Second, 4)
		ahead := limiterOn(t, w.store, func() time.Time { return w.clock.Time().Add(30 * time.Second) })
		behind := limiterOn(t, w.store, func() time.Time { return w.clock.Time().Add(-30 * time.Second) })
		passed := 0
		for i := range 200 {
			w.at(time.Duration(i) * 50 * time.Millisecond)
			l := ahead
			if i%2 == 1 {
				l = behind
			}
			d := l.Decide(context.Background(), limiter.Request{Route: "r", Fail: closed, Draw: limiter.Draw{Charges: []limiter.Charge{
				storetest.Draw(storetest.Tenant("ten_a"), "l", n, 1),
			}}})
			if d.Allowed {
				passed++
			}
		}
		if passed != 23 {
			t.Errorf("%d admitted, want 23", passed)
		}
	})
}
