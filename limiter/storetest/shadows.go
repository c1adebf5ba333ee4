package storetest

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// shadowsTell: I22. Two tenants make the same requests, one under limits that
// are enforced, one under shadows of them: the verdicts, levels and all that is
// spent are the same, except that nothing of the second is refused.
func shadowsTell(t *testing.T, w World) {
	trace := 0
	rapid.Check(t, func(rt *rapid.T) {
		trace++
		enforced, shadowed := fmt.Sprint("enforced-", trace), fmt.Sprint("shadowed-", trace)
		n := policy.Numbers{Tokens: 1, Period: 1_000_000, Burst: 5}
		for i := range 25 {
			w.Clock.Advance(time.Duration(rapid.Int64Range(0, 2_000_000).Draw(rt, "µs")) * time.Microsecond)
			request := func(tenant string, shadow bool, cost int64) limiter.Draw {
				limit, user := Draw(Tenant(tenant), "l", n, cost), bounded(tenant, fmt.Sprint("u", cost), n, 4)
				limit.Extra = 1
				slot, quota := slotOf(Tenant(tenant), 3, i, 3*time.Second), blockingQuota(Tenant(tenant), 12)
				limit.Shadow, user.Shadow, slot.Shadow, quota.Shadow = shadow, shadow, shadow, shadow
				return limiter.Draw{Charges: []limiter.Charge{limit, user}, Slots: []limiter.Slot{slot}, Quotas: []limiter.Quota{quota}}
			}
			cost := rapid.Int64Range(1, 3).Draw(rt, "cost")
			want, got := w.decide(t, request(enforced, false, cost)), w.decide(t, request(shadowed, true, cost))
			if !got.Admitted || want.Admitted == refuses(got) {
				rt.Fatalf("step %d: enforced %+v, shadow %+v", i, want, got)
			}
			got.Admitted = want.Admitted
			if fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("step %d: enforced %+v, shadow %+v", i, want, got)
			}
		}
	})
}

// refuses reports whether any part refuses, shadows included.
func refuses(out limiter.Outcome) bool {
	refused := largestWait(out) > 0
	for _, s := range out.Slots {
		refused = refused || s.Refused
	}
	for _, q := range out.Quotas {
		refused = refused || q.Refused
	}
	return refused
}

// shadowsTogether: what is enforced is spent whatever shadows say; they are
// spent together or not at all.
func shadowsTogether(t *testing.T, w World) {
	n, row := perSecond(1, 10), Tenant("ten_a")
	request := func(i int) limiter.Draw {
		real, could, quota := Draw(row, "real", n, 1), Draw(row, "could", n, 1), blockingQuota(row, 2)
		slot := slotOf(row, 5, i, time.Hour)
		could.Shadow, slot.Shadow, quota.Shadow = true, true, true
		return limiter.Draw{Charges: []limiter.Charge{real, could}, Slots: []limiter.Slot{slot}, Quotas: []limiter.Quota{quota}}
	}
	for i := range 4 {
		out, spent := w.decide(t, request(i)), int64(min(i+1, 2))
		want := limiter.Outcome{
			Admitted: true, NowMicros: w.Clock.Now(),
			Levels: []limiter.Level{{Units: int64(9-i) * n.Period}, {Units: (10 - spent) * n.Period}},
			Slots:  []limiter.SlotLevel{{Active: spent}},
			Quotas: []limiter.QuotaLevel{{Used: spent, Refused: i >= 2}},
		}
		if fmt.Sprint(out) != fmt.Sprint(want) {
			t.Errorf("request %d: %+v, want %+v", i, out, want)
		}
	}
	if w.renew(t, leaseOf(row, 2, 3, time.Hour))[0] {
		t.Error("a shadow that was not spent holds a lease")
	}
}
