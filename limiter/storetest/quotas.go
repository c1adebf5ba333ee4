package storetest

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func quotaParts() []part {
	return []part{
		{"AQuotaBlocksAtItsAmount", quotaBlocks},
		{"AQuotaBillsBeyondItsAmountUpToItsMost", quotaBills},
		{"R105_APeriodIsACounterOfItsOwn", periodsAreApart},
		{"R106_ALifetimeQuotaGoesOn", lifetimeQuota},
		{"R111_AChangedAmountMeetsWhatWasUsed", changedAmount},
		{"QuotasAreApart", quotasAreApart},
	}
}

// blockingQuota is a tenant's quota for the day in which tests begin.
func blockingQuota(row limiter.Row, amount int64) limiter.Quota {
	begin := start().Truncate(24 * time.Hour)
	return limiter.Quota{
		Row: row, LimitID: "plan.quota", Hash: hash("plan.quota"), Cost: 1, Amount: amount, Most: amount,
		Start: begin.UnixMicro(), End: begin.Add(24 * time.Hour).UnixMicro(),
	}
}

// counted draws from a quota alone and wants that outcome.
func (w World) counted(t testing.TB, what string, q limiter.Quota, cost int64, admitted bool, want limiter.QuotaLevel) {
	t.Helper()
	q.Cost = cost
	out := w.decide(t, limiter.Draw{Quotas: []limiter.Quota{q}})
	if out.Admitted != admitted || len(out.Quotas) != 1 || out.Quotas[0] != want {
		t.Errorf("%s: %+v, want %t, %+v", what, out, admitted, want)
	}
}

func quotaBlocks(t *testing.T, w World) {
	q := blockingQuota(Tenant("ten_a"), 10)
	w.counted(t, "seven", q, 7, true, limiter.QuotaLevel{Used: 7})
	w.counted(t, "four more", q, 4, false, limiter.QuotaLevel{Used: 7, Refused: true})
	w.counted(t, "the last three", q, 3, true, limiter.QuotaLevel{Used: 10})
	w.counted(t, "beyond", q, 1, false, limiter.QuotaLevel{Used: 10, Refused: true})
	w.counted(t, "by far", q, policy.MaxUnits-1, false, limiter.QuotaLevel{Used: 10, Refused: true})
	w.Clock.Advance(11 * time.Hour)
	w.counted(t, "later in the day", q, 1, false, limiter.QuotaLevel{Used: 10, Refused: true})
	none := blockingQuota(Tenant("ten_b"), 0)
	w.counted(t, "an amount of 0", none, 1, false, limiter.QuotaLevel{Refused: true})
}

func quotaBills(t *testing.T, w World) {
	q := blockingQuota(Tenant("ten_a"), 10)
	q.Bill, q.Most = true, 15
	w.counted(t, "included", q, 10, true, limiter.QuotaLevel{Used: 10})
	w.counted(t, "overage", q, 3, true, limiter.QuotaLevel{Used: 13, Overage: true})
	w.counted(t, "beyond most", q, 3, false, limiter.QuotaLevel{Used: 13, Refused: true})
	w.counted(t, "up to most", q, 2, true, limiter.QuotaLevel{Used: 15, Overage: true})
	w.counted(t, "full", q, 1, false, limiter.QuotaLevel{Used: 15, Refused: true})
	q.Most = 0
	w.counted(t, "no most", q, 1000, true, limiter.QuotaLevel{Used: 1015, Overage: true})
	w.counted(t, "never past what is counted exactly", q, policy.MaxUnits-1, false, limiter.QuotaLevel{Used: 1015, Refused: true})
	w.counted(t, "to the last unit", q, policy.MaxUnits-1-1015, true, limiter.QuotaLevel{Used: policy.MaxUnits - 1, Overage: true})
	w.counted(t, "and no further", q, 1, false, limiter.QuotaLevel{Used: policy.MaxUnits - 1, Refused: true})
	part := blockingQuota(Tenant("ten_b"), 10)
	part.Bill, part.Most = true, 40
	w.counted(t, "partly included", part, 11, true, limiter.QuotaLevel{Used: 11, Overage: true})
}

func periodsAreApart(t *testing.T, w World) {
	today := blockingQuota(Tenant("ten_a"), 5)
	tomorrow := today
	tomorrow.Start, tomorrow.End = today.End, today.End+day
	w.counted(t, "today", today, 5, true, limiter.QuotaLevel{Used: 5})
	w.counted(t, "today is used up", today, 1, false, limiter.QuotaLevel{Used: 5, Refused: true})
	w.at(12*time.Hour - time.Microsecond) // the last µs of the day
	w.counted(t, "to its last moment", today, 1, false, limiter.QuotaLevel{Used: 5, Refused: true})
	w.Clock.Advance(time.Microsecond)
	w.counted(t, "the first moment of the next", tomorrow, 4, true, limiter.QuotaLevel{Used: 4})
	w.counted(t, "a latecomer meets its own day", today, 1, false, limiter.QuotaLevel{Used: 5, Refused: true})
	for range 60 { // nothing is reset again
		w.Clock.Advance(time.Minute)
		w.counted(t, "over", tomorrow, 2, false, limiter.QuotaLevel{Used: 4, Refused: true})
	}
	w.Clock.Advance(-2 * time.Hour)
	w.counted(t, "the clock steps back over midnight", today, 1, false, limiter.QuotaLevel{Used: 5, Refused: true})
	w.counted(t, "tomorrow is as it was", tomorrow, 1, true, limiter.QuotaLevel{Used: 5})
}

func lifetimeQuota(t *testing.T, w World) {
	q := blockingQuota(Tenant("ten_a"), 20)
	q.Start, q.End = 0, 0
	for year := range int64(3) {
		w.counted(t, "now and then", q, 5, true, limiter.QuotaLevel{Used: 5 * (year + 1)})
		w.Clock.Advance(399 * 24 * time.Hour)
	}
	w.counted(t, "the rest", q, 5, true, limiter.QuotaLevel{Used: 20})
	for range 4 { // refusals keep it, too
		w.Clock.Advance(399 * 24 * time.Hour)
		w.counted(t, "used up for good", q, 1, false, limiter.QuotaLevel{Used: 20, Refused: true})
	}
}

func changedAmount(t *testing.T, w World) {
	q := blockingQuota(Tenant("ten_a"), 100)
	w.counted(t, "60 of 100", q, 60, true, limiter.QuotaLevel{Used: 60})
	q.Amount = 50
	w.counted(t, "lowered to 50", q, 1, false, limiter.QuotaLevel{Used: 60, Refused: true})
	q.Amount = 70
	w.counted(t, "raised to 70", q, 10, true, limiter.QuotaLevel{Used: 70})
	w.counted(t, "and no more", q, 1, false, limiter.QuotaLevel{Used: 70, Refused: true})
	q.Bill, q.Most, q.Amount = true, 0, 50
	w.counted(t, "billed from now on", q, 1, true, limiter.QuotaLevel{Used: 71, Overage: true})
}

func quotasAreApart(t *testing.T, w World) {
	one := blockingQuota(Tenant("ten_a"), 5)
	other := one
	other.Hash++
	for _, q := range []limiter.Quota{one, other, blockingQuota(Tenant("ten_b"), 5)} {
		w.counted(t, "its own", q, 5, true, limiter.QuotaLevel{Used: 5})
	}
	one.Row, other.Row = Tenant("ten_c"), Tenant("ten_c")
	one.Amount = 4
	one.Cost, other.Cost = 5, 5
	out := w.decide(t, limiter.Draw{Quotas: []limiter.Quota{one, other}})
	if out.Admitted || !out.Quotas[0].Refused || out.Quotas[1] != (limiter.QuotaLevel{}) {
		t.Errorf("one of two refuses: %+v", out)
	}
}
