package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// slowCalls stands for Redis: it notes each call and holds it until released.
type slowCalls struct {
	calls   chan *call
	release chan error
}

func newSlowCalls() slowCalls { return slowCalls{make(chan *call, 1000), make(chan error)} }

func (s slowCalls) send(ctx context.Context, c *call) (reply, error) {
	s.calls <- &call{shapes: slices.Clone(c.shapes), keys: [keyParts][]string{slices.Clone(c.keys[rowKeys])}} // calls are used again
	select {
	case err := <-s.release:
		if err != nil {
			return reply{}, err
		}
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
	return openReply(admitAll(c), c.replyLen)
}

// admitAll is an answer that admits every request; each level's units are the
// number of the request in its call.
func admitAll(c *call) string {
	text := binary.LittleEndian.AppendUint64(nil, 1)
	for i, s := range c.shapes {
		text = append(text, statusAdmitted)
		for range s.charges {
			text = binary.LittleEndian.AppendUint64(text, uint64(i))
			text = binary.LittleEndian.AppendUint64(text, 0)
		}
	}
	return string(text)
}

// ask puts a request of the tenant to the combiner.
func ask(ctx context.Context, c *combiner, tenant string) (limiter.Outcome, error) {
	n := policy.Numbers{Tokens: 1, Period: 1000, Burst: 5}
	row := limiter.Row{Kind: limiter.RowTenant, Tenant: tenant}
	w := c.spares.waiter(ctx)
	newKeyspace("hg", "").pack(&w.req, &limiter.Draw{Charges: []limiter.Charge{{Row: row, Hash: 1, Numbers: n, Cost: 1}}}, 0)
	return c.take(w) //nolint:contextcheck // a call lasts as long as its last waiter, not as the first
}

// bubble runs a test on a clock of its own, until the writers that it made are idle no
// longer.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t)
		<-time.After(2 * idleWriter)
	})
}

func TestCombiner_ALoneRequestGoesOutAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		slow := newSlowCalls()
		c := combiner{maxWriters: 2, send: slow.send, spares: newSpares()}
		start := time.Now()
		go func() { slow.release <- nil }()
		if out, err := ask(t.Context(), &c, "a"); err != nil || !out.Admitted {
			t.Errorf("%+v, %v", out, err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v for company", waited)
		}
	})
}

func TestCombiner_WhatGathersGoesIntoTheNextCall(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		slow := newSlowCalls()
		c := combiner{maxWriters: 2, send: slow.send, spares: newSpares()}
		var wg sync.WaitGroup
		var admitted atomic.Int64
		for i := range 102 {
			wg.Go(func() {
				if out, err := ask(t.Context(), &c, fmt.Sprint("ten_", i%10)); err == nil && out.Admitted {
					admitted.Add(1)
				}
			})
			synctest.Wait() // one after the other into the queue
		}
		if got := len(slow.calls); got != 2 {
			t.Fatalf("%d calls in flight with 2 writers", got)
		}
		var sizes []int
		for range 4 {
			one := <-slow.calls
			sizes = append(sizes, len(one.shapes))
			if len(one.keys[rowKeys]) > 10 {
				t.Errorf("%d keys for 10 rows", len(one.keys[rowKeys]))
			}
			slow.release <- nil
			synctest.Wait()
		}
		wg.Wait()
		if got := fmt.Sprint(sizes); got != "[1 1 64 36]" || admitted.Load() != 102 {
			t.Errorf("calls of %s requests, %d admitted; want [1 1 64 36], 102", got, admitted.Load())
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.writers != 0 || len(c.queue) != 0 {
			t.Errorf("%d writers and %d requests left", c.writers, len(c.queue))
		}
	})
}

func TestCombiner_EachRequestGetsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		slow := newSlowCalls()
		c := combiner{maxWriters: 1, send: slow.send, spares: newSpares()}
		units := make([]int64, 11)
		for i := range units {
			go func() {
				out, err := ask(t.Context(), &c, "a")
				if err != nil {
					t.Error(err)
					return
				}
				units[i] = out.Levels[0].Units
			}()
			synctest.Wait()
		}
		slow.release <- nil
		slow.release <- nil
		synctest.Wait()
		if got := fmt.Sprint(units); got != "[0 0 1 2 3 4 5 6 7 8 9]" {
			t.Errorf("answers %s", got)
		}
	})
}

// TestCombiner_AWaiterLeavesAtItsOwnDeadline: it neither waits for the others
// nor takes them with it, and one that left before the call is not charged.
func TestCombiner_AWaiterLeavesAtItsOwnDeadline(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		slow := newSlowCalls()
		c := combiner{maxWriters: 1, send: slow.send, spares: newSpares()}
		results := make(chan string, 3)
		start := time.Now()
		wait := func(name string, budget time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), budget)
			defer cancel()
			_, err := ask(ctx, &c, name)
			results <- fmt.Sprint(name, " ", time.Since(start), " ", errors.Is(err, context.DeadlineExceeded))
		}
		go wait("a", 50*time.Millisecond)
		synctest.Wait()
		go wait("b", 10*time.Millisecond)
		go wait("c", 100*time.Millisecond)
		if got := <-results; got != "b 10ms true" {
			t.Errorf("first to leave: %s", got)
		}
		if got := <-results; got != "a 50ms true" { // and with it the call it was alone in
			t.Errorf("second to leave: %s", got)
		}
		synctest.Wait()
		<-slow.calls
		if next := <-slow.calls; len(next.shapes) != 1 {
			t.Errorf("%d requests in the second call, although b has left", len(next.shapes))
		}
		slow.release <- nil
		if got := <-results; got != "c 50ms false" {
			t.Errorf("last: %s", got)
		}
	})
}

// TestCombiner_ACallLastsAsLongAsItsLastWaiter: a request with little time left
// does not end the call for those that were put together with it.
func TestCombiner_ACallLastsAsLongAsItsLastWaiter(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		slow := newSlowCalls()
		c := combiner{maxWriters: 1, send: slow.send, spares: newSpares()}
		go func() { _, _ = ask(t.Context(), &c, "a") }()
		synctest.Wait()
		results := make(chan string, 3)
		for _, budget := range []time.Duration{10, 100, 20} {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), budget*time.Millisecond)
				defer cancel()
				out, _ := ask(ctx, &c, "a")
				results <- fmt.Sprint(int64(budget), " ", out.Admitted)
			}()
			synctest.Wait()
		}
		slow.release <- nil
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // the bubble's clock: no time passes
		slow.release <- nil
		if got := <-results + ", " + <-results + ", " + <-results; got != "10 false, 20 false, 100 true" {
			t.Errorf("budgets and answers: %s", got)
		}
	})
}

func TestCombiner_AFailedCallIsReportedOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		slow := newSlowCalls()
		c := combiner{maxWriters: 1, send: slow.send, spares: newSpares()}
		broken := errors.New("broken")
		go func() { _, _ = ask(t.Context(), &c, "a") }()
		synctest.Wait()
		var first, combined atomic.Int64
		for range 9 {
			go func() {
				_, err := ask(t.Context(), &c, "a")
				switch {
				case !errors.Is(err, broken):
					t.Errorf("error %v", err)
				case errors.Is(err, limiter.ErrCombined):
					combined.Add(1)
				default:
					first.Add(1)
				}
			}()
		}
		synctest.Wait()
		slow.release <- nil
		slow.release <- broken
		synctest.Wait()
		if first.Load() != 1 || combined.Load() != 8 {
			t.Errorf("%d reported, %d combined; want 1, 8", first.Load(), combined.Load())
		}
	})
}

// deadlineOnly is a context as the Limiter makes it: it counts how often somebody
// asks for what needs a timer.
type deadlineOnly struct {
	context.Context
	until time.Time
	asked *atomic.Int64
}

func (d deadlineOnly) Deadline() (time.Time, bool) { return d.until, true }
func (d deadlineOnly) Caller() context.Context     { return d.Context }
func (d deadlineOnly) Done() <-chan struct{}       { d.asked.Add(1); return d.Context.Done() }

func TestCombiner_AWaiterKeepsADeadlineThatHasNoTimer(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		slow := newSlowCalls()
		c := combiner{maxWriters: 1, send: slow.send, spares: newSpares()}
		var asked atomic.Int64
		go func() { _, _ = ask(t.Context(), &c, "a") }() // keeps the only writer busy
		synctest.Wait()
		for range 2 { // the second time with a used waiter
			start := time.Now()
			_, err := ask(deadlineOnly{t.Context(), start.Add(20 * time.Millisecond), &asked}, &c, "b")
			if took := time.Since(start); took != 20*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("left after %v with %v", took, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(5 * time.Millisecond) //nolint:forbidigo // the bubble's clock: no time passes
			cancel()
		}()
		start := time.Now()
		_, err := ask(deadlineOnly{ctx, start.Add(time.Hour), &asked}, &c, "c")
		if took := time.Since(start); took != 5*time.Millisecond || !errors.Is(err, context.Canceled) {
			t.Errorf("left after %v with %v", took, err)
		}
		slow.release <- nil
		synctest.Wait()
		if asked.Load() != 0 {
			t.Errorf("a timer was asked for %d times", asked.Load())
		}
	})
}
