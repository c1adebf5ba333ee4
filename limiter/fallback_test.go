package limiter_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func TestFallback_RefusesBeyondItsBurstWithTheExactWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fail(5)
	for i := range 3 {
		if d := r.decide(request(within(10, 3))); !d.Allowed || d.Reason != limiter.ReasonOpen {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	d := r.decide(request(within(10, 3)))
	if d.Allowed || d.Reason != limiter.ReasonFallback || d.RetryAfterMicros != 100_000 {
		t.Fatalf("beyond the burst: %+v", d)
	}
	r.clock.Advance(99_999 * time.Microsecond)
	if r.decide(request(within(10, 3))).Allowed {
		t.Error("admitted 1 µs early")
	}
	r.clock.Advance(time.Microsecond)
	if !r.decide(request(within(10, 3))).Allowed {
		t.Error("refused although the wait is over")
	}
}

func TestFallback_ChargesTheCost(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fail(5)
	req := request(within(10, 10))
	req.Draw.Charges[0].Cost = 4
	for i, want := range []bool{true, true, false} {
		if got := r.decide(req).Allowed; got != want {
			t.Errorf("cost of the charges, request %d: allowed %t", i, got)
		}
	}
	req = request(within(10, 10))
	req.Identity, req.Cost = "ten_b", 10
	if !r.decide(req).Allowed || r.decide(req).Allowed {
		t.Error("the request's own cost is not what is charged")
	}
	req.Identity, req.Cost = "ten_c", 11
	if d := r.decide(req); d.Allowed || d.Reason != limiter.ReasonFallback || d.RetryAfterMicros != 0 {
		t.Errorf("a cost that can never pass: %+v", d)
	}
}

func TestFallback_CountsPerRouteAndIdentity(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fail(5)
	for _, subject := range []struct{ route, identity string }{{"a", "x"}, {"a", "y"}, {"b", "x"}} {
		req := request(within(1, 1))
		req.Route, req.Identity = subject.route, subject.identity
		if !r.decide(req).Allowed || r.decide(req).Allowed {
			t.Errorf("%v does not have a bucket of its own", subject)
		}
	}
}

func TestFallback_SurvivesAStoreThatComesAndGoes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	admitted := 0
	for range 10 {
		r.fail(5)
		for range 5 {
			if r.decide(request(within(1, 4))).Allowed {
				admitted++
			}
		}
		r.store.set(nil)
		r.clock.Advance(250 * time.Millisecond)
		r.Probe()
		if r.Degraded() {
			t.Fatal("the probe did not close the breaker")
		}
	}
	if admitted != 4+2 { // burst, and 2.25 s of refill until the last outage
		t.Errorf("%d admitted over ten outages, want 6", admitted)
	}
}

func TestFallback_TableIsBoundedAndNewcomersShareOneBucket(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *limiter.Config) { c.FallbackEntries = 10 })
	r.fail(5)
	ask := func(route string, i int) bool {
		req := request(within(1, 2))
		req.Route, req.Identity = route, fmt.Sprint("ip-", i)
		return r.decide(req).Allowed
	}
	admitted := 0
	for i := range 1000 {
		if ask("r", i) {
			admitted++
		}
	}
	if admitted != 10+2 { // ten of their own, then the two of the shared bucket
		t.Errorf("%d admitted, want 12", admitted)
	}
	if got := r.FallbackSize(); got != 10 {
		t.Errorf("%d buckets, want 10", got)
	}
	if !ask("other", 5000) || !ask("other", 5001) || ask("other", 5002) {
		t.Error("another route does not have an overflow bucket of its own")
	}
	if !ask("r", 3) {
		t.Error("a subject that has its bucket lost it to newcomers")
	}
}

func TestFallback_FullBucketsMakeRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *limiter.Config) { c.FallbackEntries = 10 })
	r.fail(5)
	for i := range 10 {
		req := request(within(1, 2))
		req.Identity = fmt.Sprint("old-", i)
		r.decide(req)
	}
	r.clock.Advance(3 * time.Second)
	for i := range 10 {
		req := request(within(1, 1))
		req.Identity = fmt.Sprint("new-", i)
		if !r.decide(req).Allowed || r.decide(req).Allowed {
			t.Errorf("newcomer %d has no bucket of its own", i)
		}
	}
}

func TestFallback_ConcurrentCallersShareTheBurstExactly(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fail(5)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 50 {
				if r.decide(request(within(1, 100))).Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got := admitted.Load(); got != 100 {
		t.Errorf("%d admitted at one instant, want 100", got)
	}
}

// TestFallback_NeverExceedsBurstPlusRefill is the bound that operators are shown
// for an outage, per replica and subject, while the policy changes under it.
func TestFallback_NeverExceedsBurstPlusRefill(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, nil)
		r.fail(5)
		burst, rate := rapid.Int64Range(1, 50).Draw(rt, "burst"), rapid.Int64Range(1, 50).Draw(rt, "rate")
		var spent, elapsed int64
		for range rapid.IntRange(1, 200).Draw(rt, "requests") {
			step := rapid.Int64Range(-50_000, 200_000).Draw(rt, "step")
			r.clock.Advance(time.Duration(step) * time.Microsecond)
			elapsed += max(0, step)
			req := request(within(rate, burst))
			req.Cost = rapid.Int64Range(1, 3).Draw(rt, "cost")
			if r.decide(req).Allowed {
				spent += req.Cost
			}
		}
		if bound := burst + rate*elapsed/1_000_000; spent > bound {
			rt.Fatalf("%d tokens in %d µs, at most %d", spent, elapsed, bound)
		}
	})
}

func TestFallback_NumbersThatCannotBeCountedAdmitNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fail(5)
	for _, f := range []policy.Fallback{
		{Rate: policy.Rate{Unlimited: true}, Burst: 5},
		{Rate: policy.Rate{Tokens: 1}, Burst: 5},
		{Rate: policy.Rate{Tokens: 1, Period: 24 * time.Hour}, Burst: 1 << 52},
	} {
		d := r.decide(request(policy.StoreFailure{Mode: policy.FailOpen, Fallback: &f}))
		if d.Allowed || d.Reason != limiter.ReasonFallback {
			t.Errorf("%+v: %+v", f, d)
		}
	}
}

// TestFallback_NewcomersFindRoomInALargeFullTable: each looks at a few entries
// only, and that is enough to replace the old ones one by one.
func TestFallback_NewcomersFindRoomInALargeFullTable(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *limiter.Config) { c.FallbackEntries = 1000 })
	r.fail(5)
	for i := range 1500 {
		req := request(within(1, 2))
		req.Identity = fmt.Sprint("old-", i)
		r.decide(req)
	}
	if got := r.FallbackSize(); got != 1000 {
		t.Fatalf("%d buckets, want 1000", got)
	}
	r.clock.Advance(5 * time.Second)
	for i := range 1000 {
		req := request(within(1, 1))
		req.Identity = fmt.Sprint("new-", i)
		if !r.decide(req).Allowed || r.decide(req).Allowed {
			t.Fatalf("newcomer %d has no bucket of its own although every old one is full again", i)
		}
	}
	if got := r.FallbackSize(); got != 1000 {
		t.Errorf("%d buckets afterwards, want 1000", got)
	}
}
