package limiter_test

import (
	"testing"

	"github.com/headgate/headgate/limiter"
)

func recorded(q limiter.Quota) limiter.Request {
	q.Recorded = true
	return limiter.Request{Fail: within(100, 100), Draw: limiter.Draw{Quotas: []limiter.Quota{q}}}
}

// TestDecide_I12_ALostCounterClosesABlockingQuota whatever the route's fail mode is: the
// store answers, and what it answers is not what was used.
func TestDecide_I12_ALostCounterClosesABlockingQuota(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	req := recorded(quotaOf(tenant("ten_a"), r.clock.Now(), 1, 10))
	for range 3 {
		d := r.decide(req)
		if d.Allowed || d.Reason != limiter.ReasonClosed || d.Degraded || d.RetryAfterMicros != 0 {
			t.Fatalf("lost: %+v", d)
		}
		if d.DecidingKind != limiter.PartQuota || d.Deciding != 0 || !d.Quotas[0].Lost {
			t.Errorf("it does not say which counter is lost: %+v", d)
		}
		if d.Cached {
			t.Error("a lost counter was remembered as a refusal")
		}
	}
	r.store.Mark()
	if d := r.decide(req); !d.Allowed || d.Quotas[0].Used != 1 {
		t.Errorf("in the moment in which it is rebuilt: %+v", d)
	}
	r.store.Flush()
	if d := r.decide(req); d.Reason != limiter.ReasonClosed {
		t.Errorf("after another loss: %+v", d)
	}
}

func TestDecide_I12_ALostCounterLetsABillingQuotaAdmit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	q := quotaOf(tenant("ten_a"), r.clock.Now(), 6, 10)
	q.Bill = true
	for i := range int64(3) {
		d := r.decide(recorded(q))
		if !d.Allowed || d.Reason != limiter.ReasonAdmitted || !d.Quotas[0].Lost || d.Quotas[0].Used != 6*(i+1) {
			t.Errorf("request %d: %+v", i, d)
		}
	}
}

// TestDecide_ALostCounterDecidesOnlyAlone: a limit that knows how long to wait is of
// more use to whoever asks.
func TestDecide_ALostCounterDecidesOnlyAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	row := tenant("ten_a")
	req := recorded(quotaOf(row, r.clock.Now(), 1, 10))
	req.Draw.Charges = []limiter.Charge{charge(row, "a", perSecond(1), 1)}
	taken := limiter.Request{Fail: closed, Draw: limiter.Draw{Charges: req.Draw.Charges}}
	if d := r.decide(req); d.Reason != limiter.ReasonClosed {
		t.Fatalf("the limit pays: %+v", d)
	}
	if d := r.decide(taken); !d.Allowed {
		t.Fatalf("a refusal for a lost counter has spent something: %+v", d)
	}
	if d := r.decide(req); d.Reason != limiter.ReasonLimit || d.RetryAfterMicros == 0 {
		t.Errorf("the limit does not pay: %+v", d)
	}
}

// TestDecide_ALostShadowIsToldAndRefusesNobody, and neither does a peek at one spend.
func TestDecide_ALostShadowIsToldAndRefusesNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	q := quotaOf(tenant("ten_a"), r.clock.Now(), 1, 10)
	q.Shadow = true
	if d := r.decide(recorded(q)); !d.Allowed || !d.Quotas[0].Refused || !d.Quotas[0].Lost {
		t.Errorf("shadow: %+v", d)
	}
	peek := recorded(quotaOf(tenant("ten_a"), r.clock.Now(), 1, 10))
	peek.Peek = true
	if d := r.decide(peek); d.Allowed || !d.Quotas[0].Lost {
		t.Errorf("a peek at a lost counter: %+v", d)
	}
	r.store.Mark()
	if d := r.decide(peek); !d.Allowed || d.Quotas[0].Used != 0 {
		t.Errorf("a peek at a rebuilt one: %+v", d)
	}
}

// TestDecide_AStoreThatLosesWhatNobodyRecordsIsBroken.
func TestDecide_AStoreThatLosesWhatNobodyRecordsIsBroken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.store.answer = &limiter.Outcome{NowMicros: r.clock.Now(), Quotas: []limiter.QuotaLevel{{Refused: true, Lost: true}}}
	q := quotaOf(tenant("ten_a"), r.clock.Now(), 1, 10)
	if d := r.decide(limiter.Request{Fail: closed, Draw: limiter.Draw{Quotas: []limiter.Quota{q}}}); !d.Degraded {
		t.Errorf("believed: %+v", d)
	}
}
