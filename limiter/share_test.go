package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
)

var shared = policy.StoreFailure{Mode: policy.FailOpen, Fallback: &policy.Fallback{Share: true}}

func replicas(n int) func(*limiter.Config) {
	return func(c *limiter.Config) { c.Replicas = func() int { return n } }
}

// TestShare_I06_AllReplicasTogetherKeepToTheLimit while every one of them decides alone.
func TestShare_I06_AllReplicasTogetherKeepToTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "replicas")
		numbers := policy.Numbers{Tokens: rapid.Int64Range(1, 100).Draw(rt, "tokens"), Period: rapid.Int64Range(1, 100_000).Draw(rt, "period"), Burst: rapid.Int64Range(1, 100).Draw(rt, "burst")}
		var all []rig
		for range n {
			r := newRig(t, replicas(n))
			r.fail(5)
			all = append(all, r)
		}
		virtual := limiter.FullBucket(0, numbers)
		now := int64(0)
		for range rapid.IntRange(1, 300).Draw(rt, "requests") {
			step := rapid.Int64Range(0, 200_000).Draw(rt, "step")
			now += step
			for _, r := range all {
				r.clock.Advance(time.Duration(step) * time.Microsecond)
			}
			cost := rapid.Int64Range(1, min(3, numbers.Burst)).Draw(rt, "cost")
			who := rapid.IntRange(0, n-1).Draw(rt, "who")
			if all[who].decide(each(shared, charge(tenant("ten_a"), "l", numbers, cost))).Allowed {
				virtual = virtual.Advance(now, numbers)
				if virtual.Units -= cost * numbers.Period; virtual.Units < 0 {
					rt.Fatalf("%d replicas together exceed %+v", n, numbers)
				}
			}
		}
	})
}

func TestShare_IsThePartOfEachLimitAllOrNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, replicas(4))
	r.fail(5)
	row := tenant("ten_a")
	req := each(shared, charge(row, "a", perSecond(40), 1), charge(row, "b", perSecond(13), 1))
	for i := range 3 { // 13/4
		if d := r.decide(req); !d.Allowed || d.Reason != limiter.ReasonOpen || d.Levels != nil {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	d := r.decide(req)
	if d.Allowed || d.Reason != limiter.ReasonFallback || d.RetryAfterMicros != 4_000_000 {
		t.Fatalf("beyond the share: %+v", d)
	}
	only := each(shared, req.Draw.Charges[0])
	for i := range 7 { // the refusal took none of the first limit's ten
		if !r.decide(only).Allowed {
			t.Fatalf("request %d of the other limit's share refused", i)
		}
	}
	if r.decide(only).Allowed {
		t.Error("an eleventh of ten")
	}
}

func TestShare_TakesTheLargerOfLiveAndExpectedReplicas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live     int
		expected int64
		admitted int
	}{{0, 0, 12}, {1, 0, 12}, {3, 0, 4}, {3, 6, 2}, {6, 3, 2}, {1, 13, 0}} {
		r := newRig(t, replicas(c.live))
		r.fail(5)
		req := each(shared, charge(tenant("ten_a"), "l", perSecond(12), 1))
		req.Expected = c.expected
		admitted := 0
		for range 20 {
			if r.decide(req).Allowed {
				admitted++
			}
		}
		if admitted != c.admitted {
			t.Errorf("live %d, expected %d: %d admitted, want %d", c.live, c.expected, admitted, c.admitted)
		}
	}
}

// TestShare_OneLimitOfSeveralRoutesIsOneShare, whichever route spends it, and shadows
// count for nothing.
func TestShare_OneLimitOfSeveralRoutesIsOneShare(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fail(5)
	shadow := charge(tenant("ten_a"), "s", perSecond(1), 1)
	shadow.Shadow = true
	admitted := 0
	for i := range 20 {
		req := each(shared, charge(tenant("ten_a"), "plan.requests", perSecond(5), 1), shadow)
		req.Route = fmt.Sprint("route-", i%4)
		if r.decide(req).Allowed {
			admitted++
		}
	}
	if admitted != 5 {
		t.Errorf("%d admitted of a limit of 5 over four routes", admitted)
	}
}

func TestShare_OfTheLargestNumbersIsExactOrNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := numbers(rt, "limit")
		r := newRig(t, replicas(rapid.IntRange(1, 1000).Draw(rt, "replicas")))
		r.fail(5)
		cost := rapid.Int64Range(1, n.Burst).Draw(rt, "cost")
		d := r.decide(each(shared, charge(tenant("ten_a"), "l", n, cost)))
		if !d.Degraded || d.Allowed != (d.Reason == limiter.ReasonOpen) || d.RetryAfterMicros != 0 {
			rt.Fatalf("first request: %+v", d)
		}
	})
}

// TestIncident_R040_NothingFailsOpenSilently: what was decided without the store is kept,
// by route, with its cause, after it is over.
func TestIncident_R040_NothingFailsOpenSilently(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []limiter.Incident
		store := &fakeStore{Store: memstore.New(time.Now)}
		l, err := limiter.New(limiter.Config{
			Store: store, OnIncident: func(i limiter.Incident) { told = append(told, i) },
			Cause: func(err error) string {
				if errors.Is(err, errDown) {
					return "down"
				}
				return "other"
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		began := time.Now()
		store.set(errDown)
		ask := func(route string, fail policy.StoreFailure) limiter.Decision {
			req := request(fail)
			req.Route = route
			return l.Decide(ctx, req)
		}
		for range 8 {
			if d := ask("open", unlimited); d.Cause != "down" || d.Levels != nil || !d.Degraded {
				t.Fatalf("%+v", d)
			}
			ask("closed", closed)
		}
		pass(10 * time.Second)
		if now := l.Incidents(); len(told) != 1 || len(now) != 1 || !now[0].End.IsZero() || now[0].Cause != "down" || now[0].Routes["open"] != (limiter.IncidentCount{Admitted: 8}) || now[0].Routes["closed"] != (limiter.IncidentCount{Refused: 8}) {
			t.Fatalf("while it lasts: %+v, told %+v", now, told)
		}
		store.set(nil)
		pass(10 * time.Second)
		past := l.Incidents()
		if len(told) != 2 || len(past) != 1 || !past[0].Start.Equal(began) || past[0].End.Before(began.Add(10*time.Second)) || past[0].End.After(began.Add(11*time.Second)) {
			t.Errorf("afterwards: %+v, told %d", past, len(told))
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
}

func TestIncidents_FlapsAreOneAndTheListIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	outage := func() {
		r.fail(5)
		r.store.set(nil)
		r.clock.Advance(300 * time.Millisecond)
		r.Probe()
	}
	for range 10 { // ten flaps in a few seconds
		outage()
	}
	if got := r.Incidents(); len(got) != 1 || got[0].Routes["r"].Admitted != 50 {
		t.Fatalf("flaps: %+v", got)
	}
	for range 50 {
		r.clock.Advance(time.Minute)
		outage()
	}
	r.clock.Advance(time.Minute)
	list := r.Incidents()
	if len(list) != 32 {
		t.Fatalf("%d kept, want 32", len(list))
	}
	for i := range list[1:] {
		if list[i].End.IsZero() || !list[i].Start.After(list[i+1].End) {
			t.Fatalf("not the newest first: %v to %v after %v", list[i].Start, list[i].End, list[i+1].End)
		}
	}
}

func TestIncidents_RoutesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fail(5)
	for i := range 3000 {
		req := request(unlimited)
		req.Route = fmt.Sprint("route-", i)
		r.decide(req)
	}
	now := r.Incidents()[0].Routes
	total := int64(0)
	for _, c := range now {
		total += c.Admitted
	}
	if len(now) > 1025 || total != 3005 {
		t.Errorf("%d routes, %d decisions", len(now), total)
	}
}

func TestIncidents_WhatIsHandedOutIsACopy(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fail(1)
	r.Incidents()[0].Routes["r"] = limiter.IncidentCount{Admitted: 99}
	if got := r.Incidents()[0].Routes["r"].Admitted; got != 1 {
		t.Errorf("%d admitted, want 1", got)
	}
}

// TestDecide_ABrokenShardDegradesItsOwnRequestsOnly: the others are asked as ever.
func TestDecide_ABrokenShardDegradesItsOwnRequestsOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.store.set(fmt.Errorf("take: %w: %w", limiter.ErrStore, limiter.ErrShard))
	for range 100 {
		if d := r.decide(request(closed)); d.Allowed || !d.Degraded {
			t.Fatalf("%+v, want the fail mode", d)
		}
	}
	if r.Degraded() {
		t.Error("a broken shard opened the breaker")
	}
}
