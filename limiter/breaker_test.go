package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
)

func TestBreaker_OpensAfterFiveFailuresInARow(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fail(4)
	if r.Degraded() {
		t.Fatal("open after 4 failures")
	}
	r.store.set(nil)
	r.decide(request(closed)) // a success in between starts the count again
	r.fail(4)
	if r.Degraded() {
		t.Fatal("open although a success lay between")
	}
	r.fail(1)
	if !r.Degraded() || r.BreakerState() != "open" {
		t.Fatalf("5 failures in a row: %s", r.BreakerState())
	}
}

func TestBreaker_OpensWhenMostCallsOfASecondFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		rounds int // of two failures and one success
		pause  time.Duration
		opens  bool
	}{
		{"18 calls are too few", 6, 0, false},
		{"21 calls, two thirds failed", 7, 0, true},
		{"spread over more than a second", 30, 300 * time.Millisecond, false},
	} {
		r := newRig(t, nil)
		for range c.rounds {
			r.fail(2)
			r.store.set(nil)
			r.decide(request(closed))
			r.clock.Advance(c.pause)
		}
		r.fail(1) // the ratio is looked at when a call fails
		if got := r.Degraded(); got != c.opens {
			t.Errorf("%s: degraded %t", c.name, got)
		}
	}
}

func TestBreaker_StaysClosedWhenHalfFail(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for range 100 {
		r.store.set(nil)
		r.decide(request(closed))
		r.fail(1)
	}
	if r.Degraded() {
		t.Error("open at exactly half")
	}
}

func TestBreaker_OpenAsksNothingOfTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fail(5)
	before, _ := r.store.asked()
	r.store.set(nil)
	r.clock.Advance(time.Hour) // even when a probe is overdue: requests are no probes
	for range 100 {
		if d := r.decide(request(closed)); d.Reason != limiter.ReasonClosed || !d.Degraded {
			t.Fatalf("%+v", d)
		}
	}
	if after, _ := r.store.asked(); after != before {
		t.Errorf("%d calls while open", after-before)
	}
}

func TestBreaker_ProbesNotBeforeItsTimeAndOpensAgainOnFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		jitter float64
		open   time.Duration
	}{{0, 200 * time.Millisecond}, {0.5, 250 * time.Millisecond}, {0.75, 275 * time.Millisecond}} {
		r := newRig(t, func(cfg *limiter.Config) { cfg.Jitter = func() float64 { return c.jitter } })
		r.fail(5)
		for round := range 3 {
			r.clock.Advance(c.open - time.Microsecond)
			r.Probe()
			if _, pings := r.store.asked(); pings != round {
				t.Fatalf("jitter %v: probed 1 µs early", c.jitter)
			}
			r.clock.Advance(time.Microsecond)
			r.Probe()
			r.Probe() // open again: not due
			if _, pings := r.store.asked(); pings != round+1 || r.BreakerState() != "open" {
				t.Fatalf("jitter %v: %d probes, %s", c.jitter, pings, r.BreakerState())
			}
		}
		r.store.set(nil)
		r.clock.Advance(c.open)
		r.Probe()
		if d := r.decide(request(closed)); r.BreakerState() != "closed" || !d.Allowed || d.Degraded {
			t.Fatalf("after recovery: %s, %+v", r.BreakerState(), d)
		}
	}
}

func TestBreaker_ForgetsOldFailuresOnRecovery(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fail(5)
	r.store.set(nil)
	r.clock.Advance(250 * time.Millisecond)
	r.Probe()
	r.fail(4)
	if r.Degraded() {
		t.Error("open after 4 failures since the recovery")
	}
}

// lateStore holds calls until they are released with an error.
type lateStore struct {
	*memstore.Store
	entered chan struct{}
	release chan error
}

func (s lateStore) Take(context.Context, *limiter.Draw) (limiter.Outcome, error) {
	s.entered <- struct{}{}
	return limiter.Outcome{}, <-s.release
}

func TestBreaker_FailuresFromBeforeARecoveryDoNotOpenItAgain(t *testing.T) {
	t.Parallel()
	var late lateStore
	r := newRig(t, func(c *limiter.Config) {
		late = lateStore{c.Store.(*fakeStore).Store, make(chan struct{}), make(chan error)}
		c.Store = late
	})
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { r.decide(request(closed)) })
		<-late.entered
	}
	for range 5 {
		late.release <- errDown
	}
	for !r.Degraded() { // the five are told one by one
		runtime.Gosched()
	}
	r.clock.Advance(time.Second)
	r.Probe()
	if r.Degraded() {
		t.Fatal("the probe did not close the breaker")
	}
	for range 5 {
		late.release <- errDown
	}
	wg.Wait()
	if r.Degraded() {
		t.Error("failures that were under way before the recovery opened the breaker")
	}
}

func TestRun_ProbesInTheBackgroundUntilTheStoreIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var modes []bool
		store := &fakeStore{Store: memstore.New(time.Now)}
		l, err := limiter.New(limiter.Config{
			Store: store, Jitter: func() float64 { return 0.5 }, OnModeChange: func(d bool) { modes = append(modes, d) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		for range 2 { // two outages
			store.set(errDown)
			for range 5 {
				l.Decide(ctx, request(closed))
			}
			time.Sleep(time.Second + time.Millisecond) //nolint:forbidigo // the bubble's clock: no time passes
			if !l.Degraded() {
				t.Fatal("closed although the store is down")
			}
			store.set(nil)
			time.Sleep(250 * time.Millisecond) //nolint:forbidigo // as above
			synctest.Wait()
			if l.Degraded() {
				t.Fatal("not back 250 ms after the store")
			}
		}
		if _, pings := store.asked(); pings != 10 {
			t.Errorf("%d probes in two outages of 1.25 s, want 10", pings)
		}
		if got := fmt.Sprint(modes); got != "[true false true false]" {
			t.Errorf("mode changes told: %s", got)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
}

func TestRun_EndsWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{Store: memstore.New(time.Now), down: errDown}
		l, err := limiter.New(limiter.Config{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		for range 5 {
			l.Decide(ctx, request(closed))
		}
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
}
