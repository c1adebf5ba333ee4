package storetest

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
)

func lostParts() []part {
	return []part{
		{"I12_ABlockingQuotaWithoutItsMarkRefuses", lostBlocks},
		{"I12_ABillingQuotaWithoutItsMarkAdmitsAndSaysSo", lostBills},
		{"I12_ACounterMadeAfterALossIsNotBelieved", lostIsNotMade},
		{"I12_ALostShadowRefusesNobody", lostShadow},
		{"ALostQuotaSpendsNothingElse", lostSpendsNothing},
		{"AQuotaThatNobodyRecordsNeedsNoMark", unrecordedNeedsNoMark},
	}
}

// recordedQuota is a blocking quota whose admissions go to a ledger.
func recordedQuota(row limiter.Row, amount int64) limiter.Quota {
	q := blockingQuota(row, amount)
	q.Recorded = true
	return q
}

func lostBlocks(t *testing.T, w World) {
	q := recordedQuota(Tenant("ten_a"), 10)
	w.counted(t, "before anybody has looked", q, 1, false, limiter.QuotaLevel{Refused: true, Lost: true})
	w.Mark(t)
	w.counted(t, "a counter that is not there is 0 now", q, 7, true, limiter.QuotaLevel{Used: 7})
	w.counted(t, "and counts", q, 4, false, limiter.QuotaLevel{Used: 7, Refused: true})
	w.Flush(t)
	w.counted(t, "after a flush", q, 1, false, limiter.QuotaLevel{Refused: true, Lost: true})
	w.Clock.Advance(time.Hour)
	w.counted(t, "and no sooner than it is rebuilt", q, 1, false, limiter.QuotaLevel{Refused: true, Lost: true})
	tomorrow := q
	tomorrow.Start, tomorrow.End = q.End, q.End+day
	w.counted(t, "in another period too", tomorrow, 1, false, limiter.QuotaLevel{Refused: true, Lost: true})
	w.Mark(t)
	w.counted(t, "rebuilt", q, 1, true, limiter.QuotaLevel{Used: 1})
}

func lostBills(t *testing.T, w World) {
	q := recordedQuota(Tenant("ten_a"), 10)
	q.Bill, q.Most = true, 15
	w.counted(t, "billed", q, 10, true, limiter.QuotaLevel{Used: 10, Lost: true})
	w.counted(t, "overage", q, 3, true, limiter.QuotaLevel{Used: 13, Overage: true, Lost: true})
	w.counted(t, "what is known to be beyond most", q, 3, false, limiter.QuotaLevel{Used: 13, Refused: true, Lost: true})
	w.Mark(t)
	w.counted(t, "nothing of it is lost again", q, 2, true, limiter.QuotaLevel{Used: 15, Overage: true})
}

// lostIsNotMade: a settlement and a plan that billed leave a counter behind after
// a flush. It says what came since, so a quota that blocks must not go by it.
func lostIsNotMade(t *testing.T, w World) {
	q := recordedQuota(Tenant("ten_a"), 10)
	w.Mark(t)
	w.counted(t, "used up", q, 10, true, limiter.QuotaLevel{Used: 10})
	w.Flush(t)
	w.amend(t, "", limiter.Amendment{Row: q.Row, Hash: q.Hash, Quota: true, Start: q.Start, End: q.End, Tokens: -2})
	w.counted(t, "a settlement made a counter", q, 1, false, limiter.QuotaLevel{Used: 2, Refused: true, Lost: true})
	billed := q
	billed.Bill, billed.Most = true, 0
	w.counted(t, "so did a plan that bills", billed, 3, true, limiter.QuotaLevel{Used: 5, Lost: true})
	w.counted(t, "and still", q, 1, false, limiter.QuotaLevel{Used: 5, Refused: true, Lost: true})
}

func lostShadow(t *testing.T, w World) {
	q := recordedQuota(Tenant("ten_a"), 10)
	q.Shadow = true
	w.counted(t, "a shadow", q, 1, true, limiter.QuotaLevel{Refused: true, Lost: true})
	w.Mark(t)
	w.counted(t, "nothing was spent on it", q, 1, true, limiter.QuotaLevel{Used: 1})
}

func lostSpendsNothing(t *testing.T, w World) {
	row, n := Tenant("ten_a"), perSecond(1, 5)
	d := limiter.Draw{Charges: []limiter.Charge{Draw(row, "l", n, 2)}, Quotas: []limiter.Quota{recordedQuota(row, 10)}}
	wants(t, "lost", w.decide(t, d), false, limiter.Level{Units: n.Full()})
	w.Mark(t)
	wants(t, "rebuilt", w.decide(t, d), true, limiter.Level{Units: 3 * n.Period})
}

func unrecordedNeedsNoMark(t *testing.T, w World) {
	plain := blockingQuota(Tenant("ten_a"), 10)
	w.counted(t, "from the start", plain, 4, true, limiter.QuotaLevel{Used: 4})
	both := recordedQuota(Tenant("ten_a"), 10)
	both.Hash++
	out := w.decide(t, limiter.Draw{Quotas: []limiter.Quota{plain, both}})
	if out.Admitted || out.Quotas[0] != (limiter.QuotaLevel{Used: 4}) || out.Quotas[1] != (limiter.QuotaLevel{Refused: true, Lost: true}) {
		t.Errorf("one recorded, one not: %+v", out)
	}
}
