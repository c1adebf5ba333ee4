package limiter_test

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// indebted is a bucket at any level, debts included.
func indebted(t *rapid.T) limiter.Bucket {
	b := bucket(t)
	b.Units = rapid.Int64Range(-limiter.MaxDebt(b.Numbers), b.Numbers.Full()).Draw(t, "level")
	return b
}

func TestBucket_ADebtIsPaidBackExactlyAndCountsExactly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := indebted(t)
		n := b.Numbers
		cost := rapid.Int64Range(1, n.Burst).Draw(t, "cost")
		wait := limiter.Wait(b.Units, cost, n)
		if b.Advance(b.TimeMicros+wait, n).Units < cost*n.Period {
			t.Fatalf("%+v cost %d: not payable after %d µs", b, cost, wait)
		}
		if wait > 0 && b.Advance(b.TimeMicros+wait-1, n).Units >= cost*n.Period {
			t.Fatalf("%+v cost %d: payable before %d µs", b, cost, wait)
		}
		if missing := n.Full() - b.Units + n.Tokens; missing >= policy.MaxUnits {
			t.Fatalf("%+v: %d units to a full bucket are not exact in a double", b, missing)
		}
	})
}

func TestBucket_AmendAddsExactlyWithinItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := indebted(t)
		tokens := rapid.Int64Range(-policy.MaxUnits+1, policy.MaxUnits-1).Draw(t, "tokens")
		if rapid.Bool().Draw(t, "few") {
			tokens %= 2*b.Numbers.Burst + 1
		}
		now := b.TimeMicros + rapid.Int64Range(0, 1<<40).Draw(t, "elapsed")
		want := new(big.Int).Mul(big.NewInt(tokens), big.NewInt(b.Numbers.Period))
		want.Add(want, big.NewInt(b.Advance(now, b.Numbers).Units))
		if full := big.NewInt(b.Numbers.Full()); want.Cmp(full) > 0 {
			want = full
		}
		if least := big.NewInt(-limiter.MaxDebt(b.Numbers)); want.Cmp(least) < 0 {
			want = least
		}
		if got := b.Amend(now, tokens); got.Units != want.Int64() || got.TimeMicros != now || got.Numbers != b.Numbers {
			t.Fatalf("%+v, %d tokens at %d: %+v, want %v units", b, tokens, now, got, want)
		}
	})
}

func TestBucket_NewNumbersKeepADebtAndNeverAdd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, n := indebted(t), numbers(t, "new")
		want := new(big.Int).Mul(big.NewInt(b.Units), big.NewInt(n.Period))
		want.Div(want, big.NewInt(b.Numbers.Period)) // rounds down, also below zero
		least, full := big.NewInt(-limiter.MaxDebt(n)), big.NewInt(n.Full())
		if want.Cmp(least) < 0 {
			want = least
		}
		if want.Cmp(full) > 0 {
			want = full
		}
		if got := b.Advance(b.TimeMicros, n); got.Units != want.Int64() {
			t.Fatalf("%+v → %+v: %d units, want %v", b, n, got.Units, want)
		}
	})
}

func TestIdentifierNumbers_AreAlwaysCountable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := numbers(t, "limit")
		most := rapid.Int64Range(1, 1<<uint(rapid.IntRange(1, 48).Draw(t, "bits"))-1).Draw(t, "most")
		got := limiter.IdentifierNumbers(n, most)
		one := charge(limiter.Row{Kind: limiter.RowIP, Subject: "x"}, "gate", got, 1)
		if err := limiter.CheckCharges([]limiter.Charge{one}); err != nil {
			t.Fatalf("%+v, most %d: %+v: %v", n, most, got, err)
		}
	})
	slow := policy.Numbers{Tokens: 1, Period: 86_400_000_000, Burst: 104_249}
	one := charge(limiter.Row{Kind: limiter.RowIP, Subject: "x"}, "gate", limiter.IdentifierNumbers(slow, 1<<40), 1)
	if err := limiter.CheckCharges([]limiter.Charge{one}); err != nil {
		t.Errorf("a slow limit with many identifiers: %v", err)
	}
}

// TestIdentifierNumbers_KeepAtMostAboutTheBound: newcomers that take a token each, and are
// remembered until their bucket is full again and forgotten.
func TestIdentifierNumbers_KeepAtMostAboutTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := numbers(t, "limit")
		most := rapid.Int64Range(1, 1_000_000).Draw(t, "most")
		got := limiter.IdentifierNumbers(n, most)
		one := charge(limiter.Row{Kind: limiter.RowIP, Subject: "x"}, "gate", got, 1)
		if err := limiter.CheckCharges([]limiter.Charge{one}); err != nil {
			t.Fatalf("%+v, most %d: %+v: %v", n, most, got, err)
		}
		life := new(big.Int).SetInt64(limiter.UntilFull(0, n) + limiter.ForgetMicros)
		newcomers := life.Mul(life, big.NewInt(got.Tokens))
		newcomers.Div(newcomers, big.NewInt(got.Period)).Add(newcomers, big.NewInt(got.Burst))
		slow := limiter.UntilFull(0, n)/policy.MaxPeriod.Microseconds() + 1 // a rate cannot be slower than one in MaxPeriod
		if newcomers.Cmp(big.NewInt(max(most, 2)+slow)) > 0 {
			t.Fatalf("%+v, most %d: %v at once", n, most, newcomers)
		}
	})
}

func TestCheckDraw_NamesTheConcurrencyLimitOrQuotaAndItsFault(t *testing.T) {
	t.Parallel()
	row := tenant("ten_a")
	slot := func(edit func(*limiter.Slot)) limiter.Draw {
		s := slotOf(row, 5, 1)
		edit(&s)
		return limiter.Draw{Slots: []limiter.Slot{s}}
	}
	quota := func(edit func(*limiter.Quota)) limiter.Draw {
		q := quotaOf(row, 1000, 1, 5)
		edit(&q)
		return limiter.Draw{Quotas: []limiter.Quota{q}}
	}
	extra := func(edit func(*limiter.Charge)) limiter.Draw {
		c := charge(row, "l", perSecond(5), 1)
		edit(&c)
		return limiter.Draw{Charges: []limiter.Charge{c}}
	}
	ok := []limiter.Draw{{}, slot(func(*limiter.Slot) {}), quota(func(*limiter.Quota) {}), quota(func(q *limiter.Quota) { q.End = 0 }), quota(func(q *limiter.Quota) { q.Amount = 0 })}
	for i := range ok {
		if err := limiter.CheckDraw(&ok[i]); err != nil {
			t.Errorf("%+v: %v", ok[i], err)
		}
	}
	twoSlots, twoQuotas := slot(func(*limiter.Slot) {}), quota(func(*limiter.Quota) {})
	twoSlots.Slots = append(twoSlots.Slots, twoSlots.Slots[0])
	twoQuotas.Quotas = append(twoQuotas.Quotas, twoQuotas.Quotas[0])
	many := limiter.Draw{}
	for i := range limiter.MaxParts + 1 {
		many.Slots = append(many.Slots, slotOf(tenant(fmt.Sprint(i)), 1, i))
	}
	for word, d := range map[string]limiter.Draw{
		"places out of range":                slot(func(s *limiter.Slot) { s.Max = 0 }),
		"places out of range: 1 to":          slot(func(s *limiter.Slot) { s.Max = limiter.MaxSlots + 1 }),
		"lease name of 3 bytes":              slot(func(s *limiter.Slot) { s.Lease = "abc" }),
		"lease name of 33 bytes":             slot(func(s *limiter.Slot) { s.Lease = strings.Repeat("a", 33) }),
		"hold out of range":                  slot(func(s *limiter.Slot) { s.HoldMicros = 0 }),
		`"route:r.concurrency": named twice`: twoSlots,
		"17 concurrency limits":              many,
		"cost out of range":                  quota(func(q *limiter.Quota) { q.Cost = 0 }),
		"amount out of range":                quota(func(q *limiter.Quota) { q.Amount = -1 }),
		"maximum out of range":               quota(func(q *limiter.Quota) { q.Most = policy.MaxUnits }),
		"start of the period":                quota(func(q *limiter.Quota) { q.Start = -1 }),
		"end of the period":                  quota(func(q *limiter.Quota) { q.End = q.Start }),
		`quota "plan.quota": named twice`:    twoQuotas,
		"extra tokens":                       extra(func(c *limiter.Charge) { c.Extra = -1 }),
		"bound of identifiers":               extra(func(c *limiter.Charge) { c.Identifiers = -1 }),
		"identifiers are bounded for":        extra(func(c *limiter.Charge) { c.Identifiers = 5 }),
	} {
		if err := limiter.CheckDraw(&d); !errors.Is(err, limiter.ErrCharges) || !strings.Contains(err.Error(), word) {
			t.Errorf("want a word on %q: %v", word, err)
		}
	}
}

func TestCheckAmendments_AndLeasesNameTheFault(t *testing.T) {
	t.Parallel()
	good := limiter.Amendment{Row: tenant("ten_a"), Hash: 1, Numbers: perSecond(5), Tokens: -3}
	held := slotOf(tenant("ten_a"), 1, 1)
	if err := errors.Join(limiter.CheckAmendments("id", []limiter.Amendment{good, {Quota: true, Start: 5}}), limiter.CheckLeases([]limiter.Lease{held.Held()})); err != nil {
		t.Error(err)
	}
	big := good
	big.Tokens = policy.MaxUnits
	lost := held.Held()
	lost.ID = ""
	for word, err := range map[string]error{
		"id of a correction of 65 bytes": limiter.CheckAmendments(strings.Repeat("x", 65), nil),
		"corrections in one call":        limiter.CheckAmendments("", make([]limiter.Amendment, limiter.MaxAmends+1)),
		"correction 1: tokens":           limiter.CheckAmendments("", []limiter.Amendment{good, big}),
		"admits nothing":                 limiter.CheckAmendments("", []limiter.Amendment{{Tokens: 1}}),
		"end of the period":              limiter.CheckAmendments("", []limiter.Amendment{{Quota: true, Start: 5, End: 4}}),
		"lease 0: lease name":            limiter.CheckLeases([]limiter.Lease{lost}),
		"leases in one call":             limiter.CheckLeases(make([]limiter.Lease, limiter.MaxLeases+1)),
	} {
		if !errors.Is(err, limiter.ErrCharges) || !strings.Contains(err.Error(), word) {
			t.Errorf("want a word on %q: %v", word, err)
		}
	}
}
