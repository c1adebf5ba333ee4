package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func amendParts() []part {
	return []part{
		{"TokensGivenBackNeverExceedTheBurst", giveBack},
		{"ADebtDelaysLaterRequestsExactly", debtDelays},
		{"ADebtHasABound", debtIsBounded},
		{"ADebtIsCarriedOverToNewNumbers", debtCarriesOver},
		{"R036_AnAmendmentIsAppliedOnce", amendedOnce},
		{"I01_AReturnBringsNoRefill", lateReturn},
		{"AnAmendmentKeepsTheNumbersInForce", amendKeepsNumbers},
		{"AQuotaIsCorrectedWithinWhatItCounts", quotaCorrected},
		{"SeveralCorrectionsAreMadeInTheirOrder", correctionsInOrder},
	}
}

// correction is of the limit "l" of the tenant ten_a.
func correction(n policy.Numbers, tokens int64) limiter.Amendment {
	return limiter.Amendment{Row: Tenant("ten_a"), Hash: hash("l"), Numbers: n, Tokens: tokens}
}

// holds wants the bucket of the limit "l" of the tenant ten_a to hold so many
// units: a draw of all of it tells, and is refused unless it is full.
func (w World) holds(t testing.TB, what string, n policy.Numbers, units int64) {
	t.Helper()
	out := w.take(t, Draw(Tenant("ten_a"), "l", n, n.Burst))
	if out.Admitted {
		t.Errorf("%s: full, want %d units", what, units)
	} else if got := out.Levels[0].Units; got != units {
		t.Errorf("%s: %d units, want %d", what, got, units)
	}
}

func giveBack(t *testing.T, w World) {
	n, row := perSecond(1, 10), Tenant("ten_a")
	w.amend(t, "", correction(n, 5)) // of what is not there
	w.take(t, Draw(row, "l", n, 8))
	w.amend(t, "", correction(n, 3))
	w.holds(t, "2 and 3", n, 5*n.Period)
	w.Clock.Advance(500 * time.Millisecond)
	w.amend(t, "", correction(n, 0))
	w.holds(t, "half a second later", n, 5*n.Period+500_000)
	w.amend(t, "", correction(n, policy.MaxUnits-1))
	wants(t, "more than the burst", w.take(t, Draw(row, "l", n, 10)), true, limiter.Level{})
	w.holds(t, "and not one more", n, 0)
}

func debtDelays(t *testing.T, w World) {
	n, row := perSecond(2, 10), Tenant("ten_a")
	w.take(t, Draw(row, "l", n, 10))
	w.amend(t, "", correction(n, -7))
	wants(t, "7 owed", w.take(t, Draw(row, "l", n, 1)), false, limiter.Level{Units: -7 * n.Period, WaitMicros: 4_000_000})
	w.Clock.Advance(4*time.Second - time.Microsecond)
	wants(t, "1 µs early", w.take(t, Draw(row, "l", n, 1)), false, limiter.Level{Units: n.Period - 2, WaitMicros: 1})
	w.Clock.Advance(time.Microsecond)
	wants(t, "when it is due", w.take(t, Draw(row, "l", n, 1)), true, limiter.Level{})
	fresh := Draw(row, "fresh", n, 1)
	w.amend(t, "", limiter.Amendment{Row: row, Hash: fresh.Hash, Numbers: n, Tokens: -12})
	wants(t, "charged before it was ever drawn from", w.take(t, fresh), false, limiter.Level{Units: -2 * n.Period, WaitMicros: 1_500_000})
	w.amend(t, "", limiter.Amendment{Row: row, Hash: fresh.Hash, Numbers: n, Tokens: 4})
	wants(t, "and given back", w.take(t, fresh), true, limiter.Level{Units: n.Period})
}

func debtIsBounded(t *testing.T, w World) {
	for _, n := range []policy.Numbers{perSecond(1, 10), {Tokens: 1, Period: 1, Burst: 1}, {Tokens: 7, Period: 2_678_400_000_000, Burst: 3000}} {
		most := policy.MaxUnits - 1 - n.Tokens - n.Full()
		w.Flush(t)
		for range 2 {
			w.amend(t, "", correction(n, 1-policy.MaxUnits))
			w.holds(t, "the largest debt", n, -most)
		}
		w.Clock.Advance(time.Microsecond)
		w.holds(t, "a µs later", n, -most+n.Tokens)
	}
}

func debtCarriesOver(t *testing.T, w World) {
	row, thirds := Tenant("ten_a"), policy.Numbers{Tokens: 1, Period: 3, Burst: 10}
	w.amend(t, "", correction(thirds, -15))
	w.Clock.Advance(2 * time.Microsecond) // 4 1/3 tokens are owed
	sevenths := policy.Numbers{Tokens: 1, Period: 7, Burst: 10}
	owed := limiter.Level{Units: -31, WaitMicros: 38} // 4 3/7: rounded away from 0
	wants(t, "in sevenths", w.take(t, Draw(row, "l", sevenths, 1)), false, owed)
	wide := policy.Numbers{Tokens: 1, Period: 1, Burst: 10}
	w.amend(t, "", limiter.Amendment{Row: row, Hash: hash("wide"), Numbers: wide, Tokens: 1 - policy.MaxUnits})
	narrow := policy.Numbers{Tokens: 1, Period: 86_400_000_000, Burst: 10}
	most := policy.MaxUnits - 1 - narrow.Tokens - narrow.Full()
	out := w.take(t, Draw(row, "wide", narrow, 1))
	if out.Admitted || out.Levels[0].Units != -most {
		t.Errorf("a debt beyond what the new numbers can count: %+v, want %d units", out, -most)
	}
}

func amendedOnce(t *testing.T, w World) {
	n, other := perSecond(1, 100), World{Store: w.another(), Clock: w.Clock}
	quota := blockingQuota(Tenant("ten_a"), 100)
	w.take(t, Draw(Tenant("ten_a"), "l", n, 50))
	both := []limiter.Amendment{correction(n, -10), {Row: quota.Row, Hash: quota.Hash, Quota: true, Start: quota.Start, End: quota.End, Tokens: -10}}
	for range 3 {
		w.amend(t, "receipt-1", both...)
		other.amend(t, "receipt-1", both...)
	}
	w.holds(t, "charged once", n, 40*n.Period)
	w.counted(t, "counted once", quota, 1, true, limiter.QuotaLevel{Used: 11})
	w.Clock.Advance(time.Hour - time.Microsecond)
	w.amend(t, "receipt-1", both...)
	w.counted(t, "nor within the hour", quota, 1, true, limiter.QuotaLevel{Used: 12})
	w.amend(t, "receipt-2", both...)
	w.amend(t, "", both...)
	w.amend(t, "", both...)
	w.counted(t, "another one, and two without a name", quota, 1, true, limiter.QuotaLevel{Used: 43})
}

func lateReturn(t *testing.T, w World) {
	n := perSecond(1, 10)
	w.take(t, Draw(Tenant("ten_a"), "l", n, 10))
	back := correction(n, 2)
	back.Since = w.Clock.Now()
	w.amend(t, "", back)
	w.holds(t, "at once", n, 2*n.Period)
	w.Clock.Advance(time.Microsecond)
	w.amend(t, "", back)
	w.holds(t, "a µs later", n, 4*n.Period)
	w.Clock.Advance(2*time.Second - time.Microsecond)
	w.amend(t, "", back)
	w.holds(t, "when as much has refilled", n, 6*n.Period-1)
	w.Clock.Advance(time.Hour)
	w.take(t, Draw(Tenant("ten_a"), "l", n, 10))
	w.amend(t, "", back)
	w.holds(t, "much later", n, 0)
	back.Since = w.Clock.Now() + 1
	w.amend(t, "", back)
	w.holds(t, "by a clock that stepped back", n, 0)
	back.Since, back.Tokens = w.Clock.Now(), policy.MaxUnits-1
	w.Clock.Advance(time.Second)
	w.take(t, Draw(Tenant("ten_a"), "l", n, 1))
	w.amend(t, "", back)
	w.holds(t, "more than the burst", n, 9*n.Period)
}

func amendKeepsNumbers(t *testing.T, w World) {
	old, row := perSecond(1, 10), Tenant("ten_a")
	now := policy.Numbers{Tokens: 1, Period: 500_000, Burst: 4}
	w.take(t, Draw(row, "l", old, 9))
	w.take(t, Draw(row, "l", now, 1)) // published in between
	w.amend(t, "", correction(old, 3))
	w.holds(t, "3 tokens at the new numbers", now, 3*now.Period)
	w.amend(t, "", correction(old, 3))
	wants(t, "up to the new burst", w.take(t, Draw(row, "l", now, 4)), true, limiter.Level{})
	w.amend(t, "", correction(old, -2))
	wants(t, "charged at the new rate", w.take(t, Draw(row, "l", now, 1)), false, limiter.Level{Units: -2 * now.Period, WaitMicros: 1_500_000})
}

func quotaCorrected(t *testing.T, w World) {
	q := blockingQuota(Tenant("ten_a"), 10)
	correct := func(units int64) {
		w.amend(t, "", limiter.Amendment{Row: q.Row, Hash: q.Hash, Quota: true, Start: q.Start, End: q.End, Tokens: units})
	}
	correct(5) // of what is not there
	w.counted(t, "nothing was given", q, 10, true, limiter.QuotaLevel{Used: 10})
	correct(4)
	w.counted(t, "4 given back", q, 4, true, limiter.QuotaLevel{Used: 10})
	correct(-20)
	w.counted(t, "charged beyond the amount", q, 1, false, limiter.QuotaLevel{Used: 30, Refused: true})
	correct(policy.MaxUnits - 1)
	w.counted(t, "down to 0", q, 1, true, limiter.QuotaLevel{Used: 1})
	correct(1 - policy.MaxUnits)
	correct(-1)
	w.counted(t, "up to what is counted exactly", q, 1, false, limiter.QuotaLevel{Used: policy.MaxUnits - 1, Refused: true})
	next := q
	next.Start, next.End = q.End, q.End+day
	w.amend(t, "", limiter.Amendment{Row: q.Row, Hash: q.Hash, Quota: true, Start: next.Start, End: next.End, Tokens: -3})
	w.counted(t, "a charge begins a period", next, 1, true, limiter.QuotaLevel{Used: 4})
}

func correctionsInOrder(t *testing.T, w World) {
	n := perSecond(1, 10)
	w.take(t, Draw(Tenant("ten_a"), "l", n, 5))
	w.amend(t, "", correction(n, 9), correction(n, -4), correction(n, 1))
	w.holds(t, "10, 6, 7", n, 7*n.Period)
	err := w.Store.Amend(context.Background(), "", []limiter.Amendment{correction(n, -1), correction(policy.Numbers{}, -1)})
	uncountable(t, "one of two", err)
	w.holds(t, "none of them was made", n, 7*n.Period)
}
