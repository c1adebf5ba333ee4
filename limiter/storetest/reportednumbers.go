package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func r011(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 10, time.Hour, 1)
	step := 20 * time.Second // the same day in fewer calls
	if w.Fast {
		step = time.Second
	}
	passed := 0
	for at := time.Duration(0); at < 24*time.Hour; at += step {
		w.at(at)
		passed += c.admitted(1, n)
	}
	if passed != 240 {
		t.Errorf("%d admitted in a day, want 240", passed)
	}
	c.draw("other", n, 1)
	w.Clock.Advance(359900 * time.Millisecond)
	c.refusedFor("359.9 s later", c.draw("other", n, 1), 1)
	w.Clock.Advance(100 * time.Millisecond)
	c.passed("360 s later", c.draw("other", n, 1), n, 0)
}

func r012(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 3, time.Second, 3)
	var passed []time.Duration
	for i := range 100 {
		at := time.Duration(i) * 100 * time.Millisecond
		w.at(at)
		out := c.draw("l", n, 1)
		if out.Levels[0].Remaining(n) > 3 {
			t.Errorf("%v: %d left of 3", at, out.Levels[0].Remaining(n))
		}
		if out.Admitted {
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
}

func r013(t *testing.T, w World) {
	c := caller{w, t}
	for _, perSecond := range []int64{1_000_000, 1_000_000_000} {
		n := rate(t, perSecond, time.Second, perSecond)
		for _, idle := range []time.Duration{12 * time.Hour, 10 * 365 * 24 * time.Hour} {
			limit := idle.String()
			w.at(0)
			c.passed("empty it", c.draw(limit, n, perSecond), n, 0)
			w.at(idle)
			c.passed("after "+limit, c.draw(limit, n, 1), n, perSecond-1)
		}
	}
}

func r014(t *testing.T, w World) {
	c, n := caller{w, t}, policy.Numbers{Tokens: 1, Period: 31, Burst: 1<<48 - 1}
	c.passed("nearly all", c.draw("l", n, n.Burst-2), n, 2)
	c.passed("one", c.draw("l", n, 1), n, 1)
	c.passed("the last", c.draw("l", n, 1), n, 0)
	out := c.draw("l", n, 1)
	if out.Admitted || largestWait(out) != 31 {
		t.Errorf("beyond: %+v", out)
	}
	if out.NowMicros != w.Clock.Now() {
		t.Errorf("time came back as %d, want %d", out.NowMicros, w.Clock.Now())
	}
	huge := policy.Numbers{Tokens: 33, Period: 32, Burst: 1<<48 - 1}
	_, err := w.Store.Take(t.Context(), &limiter.Draw{Charges: []limiter.Charge{Draw(Tenant("ten_a"), "l", huge, 1)}})
	uncountable(t, "2^53 units", err)
	quota := blockingQuota(Tenant("ten_a"), policy.MaxUnits-1)
	quota.Cost = policy.MaxUnits - 3
	for left := int64(2); left >= 0; left-- {
		out := w.decide(t, limiter.Draw{Quotas: []limiter.Quota{quota}})
		if !out.Admitted || out.Quotas[0].Used != policy.MaxUnits-1-left {
			t.Errorf("quota with %d left: %+v", left, out)
		}
		quota.Cost = 1
	}
	if out := w.decide(t, limiter.Draw{Quotas: []limiter.Quota{quota}}); out.Admitted || out.Quotas[0].Used != policy.MaxUnits-1 {
		t.Errorf("quota beyond: %+v", out)
	}
}

func r015(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 2, time.Second, 1)
	c.passed("t=0", c.draw("l", n, 1), n, 0)
	w.at(400 * time.Millisecond)
	c.refusedFor("t=0.4", c.draw("l", n, 1), 1)
	w.at(500 * time.Millisecond)
	c.passed("t=0.5", c.draw("l", n, 1), n, 0)
	slow := rate(t, 1, 10*time.Second, 1)
	w.at(0)
	c.draw("slow", slow, 1)
	for at := 9 * time.Second; at < 10*time.Second; at += 50 * time.Millisecond {
		w.at(at)
		c.refusedFor(at.String(), c.draw("slow", slow, 1), 1)
	}
	w.at(10 * time.Second)
	c.passed("when it is over", c.draw("slow", slow, 1), slow, 0)
}

func r019(t *testing.T, w World) {
	c := caller{w, t}
	hundred, fifty := rate(t, 100, time.Hour, 100), rate(t, 50, time.Hour, 50)
	c.passed("80 of 100 left", c.draw("l", hundred, 20), hundred, 80)
	c.passed("clamped to 50", c.draw("l", fifty, 1), fifty, 49)
	if got := c.admitted(60, fifty); got != 49 {
		t.Errorf("%d more admitted, want 49", got)
	}
	c.refusedFor("empty at 50 an hour", c.draw("l", fifty, 1), 72)
	w.at(time.Hour)
	if got := c.admitted(51, fifty); got != 50 {
		t.Errorf("an hour later %d admitted, want 50", got)
	}
	c.refusedFor("raised while empty", c.draw("l", hundred, 1), 36)
	w.at(90 * time.Minute)
	if got := c.admitted(51, hundred); got != 50 {
		t.Errorf("half an hour after the raise %d admitted, want 50", got)
	}
}

// limiter is one gateway's engine on the store, with a clock that is off by so
// much and a budget for a busy test machine.
func (w World) limiter(t *testing.T, off time.Duration) *limiter.Limiter {
	t.Helper()
	now := func() time.Time { return time.UnixMicro(w.Clock.Now()).Add(off) }
	l, err := limiter.New(limiter.Config{Store: w.Store, Now: now, Budget: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask decides with the engine, on a route that fails closed so that a failure of
// the store shows.
func (w World) ask(t *testing.T, l *limiter.Limiter, charges ...limiter.Charge) limiter.Decision {
	t.Helper()
	closed := policy.StoreFailure{Mode: policy.FailClosed}
	d := l.Decide(context.Background(), limiter.Request{Route: "r", Draw: limiter.Draw{Charges: charges}, Fail: closed})
	if d.Reason == limiter.ReasonClosed {
		t.Logf("the store failed: %+v", d)
	}
	return d
}

func r020(t *testing.T, w World) {
	l, row := w.limiter(t, 0), Tenant("ten_a")
	for _, n := range []policy.Numbers{{}, {Period: 1, Burst: 5}, {Tokens: 1, Period: 1}} {
		if d := w.ask(t, l, Draw(row, "l", n, 1)); d.Allowed || d.Reason != limiter.ReasonBlocked || d.RetryAfterMicros != 0 {
			t.Errorf("%+v: %+v", n, d)
		}
	}
	if d := w.ask(t, l); !d.Allowed { // an unlimited limit is no charge at all
		t.Errorf("no charges: %+v", d)
	}
	if d := w.ask(t, l, Draw(row, "l", policy.Numbers{Tokens: -1, Period: 1, Burst: 5}, 1)); d.Allowed {
		t.Errorf("a limit of -1 admits: %+v", d)
	}
}

func r022(t *testing.T, w World) {
	n := rate(t, 10_000, time.Second, 10_000)
	if got := w.crowd(t, 3, 500, 18, Draw(Tenant("ten_a"), "l", n, 1)); got != 9000 {
		t.Errorf("%d of 9000 calls admitted although 10000 tokens were there", got)
	}
}

func r024(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 2, time.Minute, 2)
	c.draw("l", n, 1)
	w.at(10 * time.Second)
	c.draw("l", n, 1)
	w.at(20 * time.Second)
	c.refusedFor("T0+20", c.draw("l", n, 1), 10)
	w.at(29 * time.Second)
	c.refusedFor("a second early", c.draw("l", n, 1), 1)
	w.at(30 * time.Second)
	c.passed("when it is over", c.draw("l", n, 1), n, 0)
}

func r025(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 3000, time.Second, 3000)
	calls := 3000
	if w.Fast {
		calls = 30_000
	}
	for i := range calls {
		w.Clock.Advance(2 * time.Millisecond)
		if out := c.draw("l", n, 1); !out.Admitted {
			t.Fatalf("call %d: %+v", i, out)
		}
	}
}

func r030(t *testing.T, w World) {
	c, perMinute := caller{w, t}, rate(t, 6000, time.Minute, 6000)
	even := rate(t, 6000, time.Minute, 1)
	passed := 0
	for i := range 154 {
		w.at(time.Duration(i) * 100 * time.Millisecond / 154)
		if !c.draw("page", perMinute, 1).Admitted {
			t.Errorf("call %d of a page refused", i)
		}
		passed += c.admitted(1, even)
	}
	if passed != 10 { // one every 10 ms, from 0 until 99.4 ms
		t.Errorf("%d of 154 admitted with a burst of 1, want 10", passed)
	}
}

func r031(t *testing.T, w World) {
	c := caller{w, t}
	for _, period := range []time.Duration{500 * time.Millisecond, 600001 * time.Millisecond, 90 * time.Minute} {
		w.at(0)
		n, limit := rate(t, 3, period, 3), period.String()
		for left := int64(2); left >= 0; left-- {
			c.passed(limit, c.draw(limit, n, 1), n, left)
		}
		out := c.draw(limit, n, 1)
		if exact := (period.Microseconds() + 2) / 3; out.Admitted || largestWait(out) != exact {
			t.Errorf("%s: %+v, want a wait of %d µs", limit, out, exact)
		}
		w.at(period)
		c.passed(limit+" later", c.draw(limit, n, 3), n, 0)
	}
}

func r033(t *testing.T, w World) {
	c, n := caller{w, t}, rate(t, 5, time.Minute, 5)
	passed := 0
	for second := range 300 {
		w.at(time.Duration(second) * time.Second)
		passed += c.admitted(1, n)
	}
	if passed != 5+24 { // the burst, and a token every 12 s until 299 s
		t.Errorf("%d admitted in 299 s, want 29", passed)
	}
}

func r043(t *testing.T, w World) {
	n := rate(t, 2, time.Second, 4)
	nodes := []*limiter.Limiter{w.limiter(t, 30*time.Second), w.limiter(t, -30*time.Second)}
	passed := 0
	for i := range 200 {
		w.at(time.Duration(i) * 50 * time.Millisecond)
		if w.ask(t, nodes[i%2], Draw(Tenant("ten_a"), "l", n, 1)).Allowed {
			passed++
		}
	}
	if passed != 23 {
		t.Errorf("%d admitted, want 23", passed)
	}
}
