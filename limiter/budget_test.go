package limiter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limiter"
)

type traceKey struct{}

func TestBudget_EndsWhenItIsSpentOrItsCallerGoesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		caller, cancel := context.WithCancel(context.WithValue(t.Context(), traceKey{}, "id"))
		ctx, end := limiter.WithBudget(caller, time.Second)
		defer end()
		if at, ok := ctx.Deadline(); !ok || !at.Equal(time.Now().Add(time.Second)) || ctx.Err() != nil || ctx.Value(traceKey{}) != "id" {
			t.Errorf("fresh: %v %t, %v, %v", at, ok, ctx.Err(), ctx.Value(traceKey{}))
		}
		child, childCancel := context.WithCancel(ctx)
		defer childCancel()
		pass(999 * time.Millisecond)
		if ctx.Err() != nil || child.Err() != nil || ctx.Value(traceKey{}) != "id" {
			t.Errorf("before the deadline: %v, %v", ctx.Err(), child.Err())
		}
		pass(time.Millisecond)
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("at the deadline: %v, %v", ctx.Err(), child.Err())
		}
		second, end2 := limiter.WithBudget(caller, time.Hour)
		defer end2()
		done := second.Done()
		cancel()
		<-done
		if !errors.Is(second.Err(), context.Canceled) {
			t.Errorf("after the caller went away: %v", second.Err())
		}
	})
}

func TestBudget_WithoutATimerItKnowsTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ctx, end := limiter.WithBudget(near, time.Hour)
		if at, _ := ctx.Deadline(); !at.Equal(time.Now().Add(time.Second)) {
			t.Errorf("deadline %v, want the caller's", at)
		}
		other, endOther := limiter.WithBudget(t.Context(), time.Second)
		pass(time.Second)
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(other.Err(), context.DeadlineExceeded) {
			t.Errorf("%v, %v", ctx.Err(), other.Err())
		}
		end()
		endOther()
		ended, end3 := limiter.WithBudget(t.Context(), time.Hour)
		end3()
		if !errors.Is(ended.Err(), context.Canceled) {
			t.Errorf("ended: %v", ended.Err())
		}
		<-ended.Done()
	})
}

func TestBudget_WithinAnotherEndsWithTheSoonerOfBoth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ outer, inner time.Duration }{{time.Second, time.Hour}, {time.Hour, time.Second}} {
			outer, endOuter := limiter.WithBudget(t.Context(), c.outer)
			inner, end := limiter.WithBudget(outer, c.inner)
			if at, _ := inner.Deadline(); !at.Equal(time.Now().Add(time.Second)) {
				t.Errorf("%v within %v: %v", c.inner, c.outer, at)
			}
			caller, ok := inner.(interface{ Caller() context.Context })
			if !ok || caller.Caller() != t.Context() {
				t.Errorf("its caller is not the request's own context")
			}
			<-inner.Done()
			end()
			endOuter()
		}
	})
}

func TestBudget_CostsOneAllocationUnlessSomebodyWaits(t *testing.T) { //nolint:paralleltest // allocations are counted
	ctx := context.Background()
	if got := testing.AllocsPerRun(100, func() {
		within, end := limiter.WithBudget(ctx, time.Hour)
		if within.Err() != nil {
			t.Error("ended")
		}
		end()
	}); got > 2 { // the context, and its end as a value
		t.Errorf("%v allocations", got)
	}
}
