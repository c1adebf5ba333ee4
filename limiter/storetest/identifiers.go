package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func identifierParts() []part {
	return []part{
		{"R062_NewcomersBeyondTheBoundShareABucket", newcomersShare},
		{"R129_IdentifiersStayBoundedOverTime", identifiersStayBounded},
		{"ARefusedNewcomerTakesNoPlace", refusedNewcomer},
		{"IdentifiersAreBoundedPerTenantAndLimit", identifiersAreApart},
	}
}

// bounded is a charge of one user of a tenant.
func bounded(tenant, user string, n policy.Numbers, most int64) limiter.Charge {
	c := Draw(inTenant(tenant, user), "route:login.per-account", n, 1)
	c.Identifiers = most
	return c
}

func newcomersShare(t *testing.T, w World) {
	n := policy.Numbers{Tokens: 1, Period: 60_000_000, Burst: 3}
	for _, tenant := range []string{"ten_a", ""} {
		for i := range 5 {
			wants(t, "one of the first", w.take(t, bounded(tenant, fmt.Sprint("u", i), n, 10)), true, limiter.Level{Units: 2 * n.Period})
		}
		for i := range 3 {
			level := limiter.Level{Units: int64(2-i) * n.Period, Overflow: true}
			wants(t, "beyond the bound", w.take(t, bounded(tenant, fmt.Sprint("new", i), n, 10)), true, level)
		}
		wants(t, "all of them share", w.take(t, bounded(tenant, "new3", n, 10)), false, limiter.Level{WaitMicros: 60_000_000, Overflow: true})
		wants(t, "a known one does not", w.take(t, bounded(tenant, "u0", n, 10)), true, limiter.Level{Units: n.Period})
		slice := bounded(tenant, "u1", n, 10)
		slice.Extra = 9
		wants(t, "nor when it takes a slice", w.take(t, slice), true, limiter.Level{Extra: 1})
	}
	for i := range 2 {
		slice := bounded("ten_c", fmt.Sprint("u", i), n, 2)
		slice.Extra = 9
		level := []limiter.Level{{Extra: 2}, {Units: 2 * n.Period, Overflow: true}}[i]
		wants(t, "there are no slices of a shared bucket", w.take(t, slice), true, level)
	}
}

// identifiersStayBounded: a flood of identifiers, each used once, makes at most
// about as many buckets as are allowed within the time that one is remembered.
func identifiersStayBounded(t *testing.T, w World) {
	n := policy.Numbers{Tokens: 1, Period: 1_000_000, Burst: 10} // full again after 10 s
	const most, calls = 20, 600
	apart := map[int]bool{}
	for i := range calls {
		w.Clock.Advance(100 * time.Millisecond)
		out := w.take(t, bounded("ten_a", fmt.Sprint("u", i), n, most))
		if !out.Levels[0].Overflow {
			apart[i] = true
		}
		recent := 0
		for j := i; j > i-100 && j >= 0; j-- { // 10 s
			if apart[j] {
				recent++
			}
		}
		if recent > most {
			t.Fatalf("%d identifiers apart within 10 s, at most %d", recent, most)
		}
	}
	if len(apart) < 60 { // 10, and 10 more every 11 s
		t.Errorf("%d identifiers apart in a minute, want at least 60", len(apart))
	}
}

func refusedNewcomer(t *testing.T, w World) {
	n, row := perSecond(1, 3), Tenant("ten_a")
	w.take(t, Draw(row, "l", n, 3))
	for i := range 20 {
		out := w.take(t, bounded("ten_a", fmt.Sprint("u", i), n, 4), Draw(row, "l", n, 1))
		if out.Admitted || out.Levels[0].Overflow {
			t.Fatalf("call %d: %+v, want a refusal by the tenant alone", i, out)
		}
	}
	wants(t, "a place is left", w.take(t, bounded("ten_a", "u", n, 4)), true, limiter.Level{Units: 2 * n.Period})
}

func identifiersAreApart(t *testing.T, w World) {
	n := policy.Numbers{Tokens: 1, Period: 60_000_000, Burst: 3}
	fill := func(tenant string, c limiter.Charge) {
		t.Helper()
		c.Row = inTenant(tenant, "first")
		if w.take(t, c).Levels[0].Overflow {
			t.Errorf("%s: the first of %q is counted with others", tenant, c.LimitID)
		}
		c.Row = inTenant(tenant, "second")
		if !w.take(t, c).Levels[0].Overflow {
			t.Errorf("%s: the second of %q is counted apart", tenant, c.LimitID)
		}
	}
	one := bounded("ten_a", "", n, 2)
	other := Draw(one.Row, "route:reset.per-account", n, 1)
	other.Identifiers = 2
	for _, tenant := range []string{"ten_a", "ten_b", ""} {
		fill(tenant, one)
		fill(tenant, other)
	}
	address := one
	address.Row = limiter.Row{Kind: limiter.RowIP, Subject: "192.0.2.1"}
	if w.take(t, address).Levels[0].Overflow {
		t.Error("an address is counted with users of no tenant")
	}
}
