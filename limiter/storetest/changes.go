package storetest

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func changeParts() []part {
	return []part{
		{"R007_RefusalSpendsNothingInOtherLanes", refusalSpendsNothing},
		{"R007_RefusalFreesSlotsInOtherLanes", refusalFreesSlots},
		{"R006_RaisedRateTakesEffectAfterARefusal", raisedRateTakesEffect},
		{"R019_ChangedNumbersCarryTokensOver", carriesOver},
		{"R043_ClockThatStepsBackDelaysNobody", clockStepsBack},
		{"R014_LargestNumbersAreExact", largestNumbers},
	}
}

// soon looks until what it sees is there: at once, or where there are lanes
// within 10 s, because what a lane took for a refused draw comes back later.
func (w World) soon(look func() (there bool)) bool {
	there := look()
	for waited := 0; !there && w.Lane != nil && waited < 1000; waited++ {
		<-time.After(10 * time.Millisecond)
		there = look()
	}
	return there
}

// refusalSpendsNothing: also where the rows lie in lanes that are asked one
// after the other.
func refusalSpendsNothing(t *testing.T, w World) {
	wide, narrow := perSecond(1, 10), perSecond(1, 3)
	tenant, address := Tenant("ten_a"), limiter.Row{Kind: limiter.RowIP, Subject: "192.0.2.1"}
	for _, rows := range [][2]limiter.Row{{tenant, address}, {address, tenant}} {
		both := []limiter.Charge{Draw(rows[0], "wide", wide, 1), Draw(rows[1], "narrow", narrow, 1)}
		admitted := 0
		for range 8 {
			if w.take(t, both...).Admitted {
				admitted++
			}
		}
		if admitted != 3 {
			t.Errorf("%v: %d admitted, want 3", rows, admitted)
		}
		var got limiter.Outcome
		want := limiter.Level{Units: 7 * wide.Period, WaitMicros: 3 * wide.Period}
		if !w.soon(func() bool { // a draw of all of it is refused, so it only looks
			got = w.take(t, Draw(rows[0], "wide", wide, 10))
			return got.Levels[0] == want
		}) {
			t.Errorf("%v: the wide limit afterwards: %+v, want %+v", rows, got, want)
		}
	}
}

// refusalFreesSlots: the tenant refuses after a place by address was taken.
func refusalFreesSlots(t *testing.T, w World) {
	tenant, address := Tenant("ten_a"), limiter.Row{Kind: limiter.RowIP, Subject: "192.0.2.1"}
	for i := range 8 {
		out := w.decide(t, limiter.Draw{
			Charges: []limiter.Charge{Draw(tenant, "l", perSecond(1, 3), 1)},
			Slots:   []limiter.Slot{slotOf(address, 9, i, time.Hour)},
		})
		if out.Admitted != (i < 3) {
			t.Errorf("call %d: %+v", i, out)
		}
	}
	var got limiter.Outcome
	if !w.soon(func() bool { // there is no fourth place: it only looks
		got = w.enter(t, slotOf(address, 3, 9, time.Hour))
		return !got.Admitted && got.Slots[0].Active == 3
	}) {
		t.Errorf("afterwards: %+v, want 3 active", got)
	}
}

func raisedRateTakesEffect(t *testing.T, w World) {
	slow := policy.Numbers{Tokens: 1, Period: 3_600_000_000, Burst: 1}
	fast := policy.Numbers{Tokens: 1, Period: 10_000, Burst: 100}
	row := Tenant("ten_a")
	w.take(t, Draw(row, "l", slow, 1))
	refused := w.take(t, Draw(row, "l", fast, 1))
	wants(t, "at the new rate", refused, false, limiter.Level{WaitMicros: 10_000})
	w.Clock.Advance(10 * time.Millisecond)
	wants(t, "after the wait", w.take(t, Draw(row, "l", fast, 1)), true, limiter.Level{})
}

func carriesOver(t *testing.T, w World) {
	row := Tenant("ten_a")
	old := policy.Numbers{Tokens: 1, Period: 3, Burst: 100}
	w.take(t, Draw(row, "l", old, 21))
	w.Clock.Advance(2 * time.Microsecond) // 79 2/3 tokens
	next := policy.Numbers{Tokens: 1, Period: 7, Burst: 100}
	wants(t, "other period: 79 and 4/7 tokens", w.take(t, Draw(row, "l", next, 1)), true, limiter.Level{Units: 78*7 + 4})
	lower := policy.Numbers{Tokens: 1, Period: 7, Burst: 50}
	wants(t, "lower burst", w.take(t, Draw(row, "l", lower, 1)), true, limiter.Level{Units: 49 * 7})
	wants(t, "higher burst again", w.take(t, Draw(row, "l", next, 1)), true, limiter.Level{Units: 48 * 7})
}

func clockStepsBack(t *testing.T, w World) {
	n, row := perSecond(1, 1), Tenant("ten_a")
	w.take(t, Draw(row, "l", n, 1))
	w.Clock.Advance(-time.Minute)
	wants(t, "right after the step", w.take(t, Draw(row, "l", n, 1)), false, limiter.Level{WaitMicros: 1_000_000})
	w.Clock.Advance(time.Second)
	wants(t, "one token's time later", w.take(t, Draw(row, "l", n, 1)), true, limiter.Level{})
}

func largestNumbers(t *testing.T, w World) {
	row := Tenant("ten_a")
	n := policy.Numbers{Tokens: 1, Period: 127, Burst: (policy.MaxUnits - 2) / 127}
	full := n.Full()
	wants(t, "all but two tokens", w.take(t, Draw(row, "l", n, n.Burst-2)), true, limiter.Level{Units: 254})
	w.Clock.Advance(time.Microsecond)
	wants(t, "to the unit", w.take(t, Draw(row, "l", n, 2)), true, limiter.Level{Units: 1})
	wants(t, "the wait for all", w.take(t, Draw(row, "l", n, n.Burst)), false,
		limiter.Level{Units: 1, WaitMicros: full - 1})
	fast := policy.Numbers{Tokens: 1_000_000_000, Period: 1_000_000, Burst: 1_000_000_000}
	w.take(t, Draw(row, "fast", fast, fast.Burst))
	for idle := range 11 { // years, 55 in all
		w.Clock.Advance(time.Duration(idle) * 365 * 24 * time.Hour)
		if out := w.take(t, Draw(row, "fast", fast, 1)); !out.Admitted && idle > 0 {
			t.Fatalf("refused after %d idle years: %+v", idle, out)
		}
	}
}
