package limiter_test

import (
	"context"
	"testing"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// half is a store of which one part is down: the first of a request's two limits and
// of its two concurrency limits lie there.
type half struct {
	rig
	asked int
	rest  error // of the part that lives
}

func newHalf(t *testing.T) *half {
	t.Helper()
	h := &half{rig: newRig(t, nil)}
	h.store.set(&limiter.PartialError{Err: errDown, Rest: func(ctx context.Context) (limiter.Outcome, error) {
		h.asked++
		if h.rest != nil {
			return limiter.Outcome{}, h.rest
		}
		whole := h.request(unlimited).Draw
		out, err := h.store.Store.Take(ctx, &limiter.Draw{Charges: whole.Charges[1:], Slots: whole.Slots[1:]})
		out.Levels = append([]limiter.Level{{Unknown: true}}, out.Levels...)
		out.Slots = append([]limiter.SlotLevel{{Unknown: true}}, out.Slots...)
		return out, err
	}})
	return h
}

func (h *half) request(fail policy.StoreFailure) limiter.Request {
	n := policy.Numbers{Tokens: 1, Period: 3_600_000_000, Burst: 3}
	req := request(fail)
	req.Draw.Charges = []limiter.Charge{
		charge(limiter.Row{Kind: limiter.RowGlobal}, "global.all", n, 1), charge(tenant("ten_a"), "l", n, 1),
	}
	req.Draw.Slots = []limiter.Slot{slotOf(tenant("ten_b"), 2, 1), slotOf(tenant("ten_a"), 100, h.asked+2)}
	return req
}

// TestLimiter_R02_R07_ALimitThatCannotBeAskedStandsInNobodysWay: the fail mode is for
// it alone, and the others hold to the token.
func TestLimiter_R02_R07_ALimitThatCannotBeAskedStandsInNobodysWay(t *testing.T) {
	t.Parallel()
	h := newHalf(t)
	for i := range 30 {
		d := h.decide(h.request(unlimited))
		if i < 3 && (!d.Allowed || !d.Degraded || d.Reason != limiter.ReasonOpen || d.Levels != nil || len(d.Leases) != 1) {
			t.Fatalf("request %d: %+v", i, d)
		}
		if i >= 3 && (d.Allowed || d.Degraded || d.Reason != limiter.ReasonLimit || d.Deciding != 1 || d.RetryAfterMicros == 0) {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	if h.Degraded() {
		t.Error("one part that is down opened the breaker")
	}
	incidents := h.Incidents()
	if len(incidents) != 1 || incidents[0].Routes["r"] != (limiter.IncidentCount{Admitted: 3}) {
		t.Errorf("%+v, want an incident of 3 admissions", incidents)
	}
}

func TestLimiter_R07_WhatTheFailModeRefusesSpendsNothingElsewhere(t *testing.T) {
	t.Parallel()
	h := newHalf(t)
	if d := h.decide(h.request(closed)); d.Allowed || d.Reason != limiter.ReasonClosed || h.asked != 0 {
		t.Errorf("closed: %+v, the rest was asked %d times", d, h.asked)
	}
	h = newHalf(t)
	for i, want := range []limiter.Reason{limiter.ReasonOpen, limiter.ReasonFallback} {
		if d := h.decide(h.request(within(1, 1))); d.Reason != want || h.asked != 1 {
			t.Errorf("request %d: %+v, the rest was asked %d times", i, d, h.asked)
		}
	}
}

func TestLimiter_R07_WhereTheRestDoesNotAnswerTheFailModeDecidesAndTheBreakerKnows(t *testing.T) {
	t.Parallel()
	h := newHalf(t)
	h.rest = errDown
	for i := range 5 {
		if h.Degraded() {
			t.Fatalf("open after %d failures", i)
		}
		if d := h.decide(h.request(unlimited)); !d.Allowed || !d.Degraded || d.Leases != nil {
			t.Fatalf("%+v", d)
		}
	}
	if !h.Degraded() {
		t.Error("a store of which no part answers is still asked")
	}
}

// TestLimiter_R07_APeekAsksNoRest: it would have to spend nothing, and its probe may
// lie in the part that is down.
func TestLimiter_R07_APeekAsksNoRest(t *testing.T) {
	t.Parallel()
	h := newHalf(t)
	req := h.request(unlimited)
	req.Peek = true
	if d := h.decide(req); !d.Degraded || h.asked != 0 {
		t.Errorf("%+v, the rest was asked %d times", d, h.asked)
	}
}
