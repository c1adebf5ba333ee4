package storetest

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
)

func slotParts() []part {
	return []part{
		{"I04_NeverMoreLeasesThanPlaces", leasesAreBounded},
		{"I04_ACrowdNeverHoldsMoreThanThePlaces", crowdOfLeases},
		{"I04_AReleasedLeaseIsFreeAtOnce", releaseFrees},
		{"R026_ASlotOfAKilledGatewayComesBack", r026},
		{"R027_RefusedCallsNeitherTakeNorFreeSlots", r027},
		{"R028_ARenewedLeaseIsKeptAndAStrangersIsNotFreed", r028},
		{"LostLeasesAreMadeAgain", lostLeases},
		{"LoweredPlacesEndNoLease", loweredPlaces},
		{"SlotsAreApart", slotsAreApart},
	}
}

// slotOf is the i-th request's place of max for a while.
func slotOf(row limiter.Row, most int64, i int, hold time.Duration) limiter.Slot {
	return limiter.Slot{
		Row: row, LimitID: "route:r.concurrency", Hash: hash("route:r.concurrency"),
		Max: most, Lease: leaseName(i), HoldMicros: hold.Microseconds(),
	}
}

// leaseOf is what slotOf's admission makes.
func leaseOf(row limiter.Row, most int64, i int, hold time.Duration) limiter.Lease {
	slot := slotOf(row, most, i, hold)
	return slot.Held()
}

// enter asks for slots alone.
func (w World) enter(t testing.TB, slots ...limiter.Slot) limiter.Outcome {
	t.Helper()
	return w.decide(t, limiter.Draw{Slots: slots})
}

// entered wants the outcome of one slot.
func entered(t testing.TB, what string, out limiter.Outcome, admitted bool, active int64) {
	t.Helper()
	if want := (limiter.SlotLevel{Active: active, Refused: !admitted}); out.Admitted != admitted || len(out.Slots) != 1 || out.Slots[0] != want {
		t.Errorf("%s: %+v, want %t, %+v", what, out, admitted, want)
	}
}

// leaseBook is a book of which leases are valid, and until when.
type leaseBook struct {
	World
	until map[string]int64
}

func (b leaseBook) valid() int64 {
	n := int64(0)
	for id := range b.until {
		if b.holds(id) {
			n++
		}
	}
	return n
}

func (b leaseBook) holds(id string) bool { return b.until[id] > b.Clock.Now() }

// leasesAreBounded keeps a book of its own: at no instant are more leases valid
// than there are places, whatever is taken, renewed, released and ended; and a
// request is refused only when they are.
func leasesAreBounded(t *testing.T, w World) {
	trace := 0
	rapid.Check(t, func(rt *rapid.T) {
		trace++
		row := Tenant(fmt.Sprint("ten_", trace))
		most := rapid.Int64Range(1, 3).Draw(rt, "places")
		book := leaseBook{w, map[string]int64{}}
		for range 40 {
			w.Clock.Advance(time.Duration(rapid.IntRange(0, 12).Draw(rt, "s")) * time.Second)
			slot := slotOf(row, most, rapid.IntRange(0, 5).Draw(rt, "request"), 20*time.Second)
			free, mine, held := book.valid() < most, book.holds(slot.Lease), false
			switch rapid.IntRange(0, 3).Draw(rt, "call") {
			case 0, 1:
				if held = w.enter(t, slot).Admitted; held != free {
					rt.Fatalf("a place free %t: admitted %t", free, held)
				}
			case 2:
				if held = w.renew(t, slot.Held())[0]; held != (mine || free) {
					rt.Fatalf("held %t, a place free %t: renewed %t", mine, free, held)
				}
			default:
				w.release(t, slot.Held())
				delete(book.until, slot.Lease)
			}
			if held {
				book.until[slot.Lease] = w.Clock.Now() + slot.HoldMicros
			}
			if now := book.valid(); now > most {
				rt.Fatalf("%d leases for %d places", now, most)
			}
		}
	})
}

// crowdOfLeases counts what runs at once itself, over several clients.
func crowdOfLeases(t *testing.T, w World) {
	const places, callers, each = 3, 16, 25
	stores := []limiter.Store{w.Store, w.another(), w.another()}
	var running, passed atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			store := stores[i%len(stores)]
			for j := range each {
				slot := slotOf(Tenant("ten_a"), places, i*each+j, time.Hour)
				out, err := store.Take(t.Context(), &limiter.Draw{Slots: []limiter.Slot{slot}})
				if err != nil || out.Slots[0].Active > places {
					t.Errorf("caller %d: %+v, %v", i, out, err)
				}
				if !out.Admitted {
					continue
				}
				passed.Add(1)
				if now := running.Add(1); now > places {
					t.Errorf("%d run at once, at most %d", now, places)
				}
				runtime.Gosched()
				running.Add(-1)
				if err := store.Release(t.Context(), []limiter.Lease{slot.Held()}); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() < places {
		t.Errorf("%d admitted in all", passed.Load())
	}
	entered(t, "when all have ended", w.enter(t, slotOf(Tenant("ten_a"), places, 9999, time.Hour)), true, 1)
}

func releaseFrees(t *testing.T, w World) {
	row := Tenant("ten_a")
	first, second := slotOf(row, 1, 1, time.Minute), slotOf(row, 1, 2, time.Minute)
	entered(t, "the first", w.enter(t, first), true, 1)
	entered(t, "no place", w.enter(t, second), false, 1)
	w.release(t, first.Held())
	entered(t, "right after the release", w.enter(t, second), true, 1)
	w.release(t, first.Held()) // a second time: it is a stranger now
	entered(t, "released twice", w.enter(t, slotOf(row, 1, 3, time.Minute)), false, 1)
	w.Clock.Advance(time.Minute - time.Microsecond)
	entered(t, "a µs before it ends", w.enter(t, first), false, 1)
	w.Clock.Advance(time.Microsecond)
	entered(t, "when it has ended", w.enter(t, first), true, 1)
}

func r026(t *testing.T, w World) {
	row, other := Tenant("ten_a"), World{Store: w.another(), Clock: w.Clock}
	for i := range 5 {
		entered(t, "filling", w.enter(t, slotOf(row, 5, i, 30*time.Second)), true, int64(i)+1)
		w.Clock.Advance(time.Second)
	}
	// Its gateway is killed: nobody renews or releases. Another one asks.
	entered(t, "full", other.enter(t, slotOf(row, 5, 9, 30*time.Second)), false, 5)
	w.at(30*time.Second - time.Microsecond)
	entered(t, "still full", other.enter(t, slotOf(row, 5, 9, 30*time.Second)), false, 5)
	for i := range 5 {
		w.at(30*time.Second + time.Duration(i)*time.Second)
		entered(t, "one more has ended", other.enter(t, slotOf(row, 5, 10+i, 30*time.Second)), true, 5)
	}
}

func r027(t *testing.T, w World) {
	row := Tenant("ten_a")
	n := rate(t, 1, time.Hour, 1)
	calls := 100
	if w.Fast {
		calls = 1000
	}
	entered(t, "first", w.enter(t, slotOf(row, 2, 0, time.Hour)), true, 1)
	entered(t, "second", w.enter(t, slotOf(row, 2, 1, time.Hour)), true, 2)
	w.take(t, Draw(row, "l", n, 1))
	for i := range calls {
		by := []limiter.Draw{
			{Charges: []limiter.Charge{Draw(row, "l", n, 1)}, Slots: []limiter.Slot{slotOf(row, 3, 2+i, time.Hour)}}, // by the limit
			{Slots: []limiter.Slot{slotOf(row, 2, 2+i, time.Hour)}},                                                  // by concurrency
		}
		for _, d := range by {
			if out := w.decide(t, d); out.Admitted || out.Slots[0].Active != 2 {
				t.Fatalf("call %d: %+v, want a refusal and 2 active", i, out)
			}
			w.release(t, d.Slots[0].Held()) // of what it never got
		}
	}
	w.release(t, leaseOf(row, 2, 0, time.Hour))
	entered(t, "after one ended", w.enter(t, slotOf(row, 2, 5000, time.Hour)), true, 2)
}

func r028(t *testing.T, w World) {
	row := Tenant("ten_a")
	first, second := slotOf(row, 2, 1, 30*time.Second), slotOf(row, 2, 2, 30*time.Second)
	w.enter(t, first)
	w.enter(t, second)
	for at := 10 * time.Second; at <= 120*time.Second; at += 10 * time.Second {
		w.at(at)
		if held := w.renew(t, first.Held(), second.Held()); !held[0] || !held[1] {
			t.Errorf("at %v: renewed %v", at, held)
		}
		if at == 40*time.Second {
			w.at(45 * time.Second)
			entered(t, "at 45 s", w.enter(t, slotOf(row, 2, 3, 30*time.Second)), false, 2)
		}
	}
	w.release(t, leaseOf(row, 2, 77, time.Second))
	entered(t, "a stranger's release", w.enter(t, slotOf(row, 2, 3, 30*time.Second)), false, 2)
	w.release(t, first.Held())
	entered(t, "one place", w.enter(t, slotOf(row, 2, 3, 30*time.Second)), true, 2)
	entered(t, "no second one", w.enter(t, slotOf(row, 2, 4, 30*time.Second)), false, 2)
	if w.renew(t, first.Held())[0] {
		t.Error("a released lease was renewed although its place was taken")
	}
}

func lostLeases(t *testing.T, w World) {
	row := Tenant("ten_a")
	first, second := slotOf(row, 2, 1, 30*time.Second), slotOf(row, 2, 2, 30*time.Second)
	w.enter(t, first)
	w.enter(t, second)
	w.Flush(t)
	if held := w.renew(t, first.Held(), second.Held()); !held[0] || !held[1] {
		t.Errorf("after a flush: renewed %v", held)
	}
	entered(t, "both count again", w.enter(t, slotOf(row, 2, 3, time.Second)), false, 2)
	w.Clock.Advance(time.Hour) // all leases end at once
	entered(t, "one newcomer", w.enter(t, slotOf(row, 2, 3, time.Minute)), true, 1)
	if held := w.renew(t, first.Held(), second.Held()); !held[0] || held[1] {
		t.Errorf("with one place left: renewed %v, want the first alone", held)
	}
	w.Clock.Advance(-time.Hour) // renewals set the expiry by the clock as it is
	if held := w.renew(t, first.Held()); !held[0] {
		t.Error("not renewed after the clock stepped back")
	}
	w.Clock.Advance(30 * time.Second)
	entered(t, "30 s after the step", w.enter(t, slotOf(row, 2, 4, time.Minute)), true, 2)
}

func loweredPlaces(t *testing.T, w World) {
	row := Tenant("ten_a")
	for i := range 3 {
		w.enter(t, slotOf(row, 3, i, time.Minute))
	}
	entered(t, "lowered to 1", w.enter(t, slotOf(row, 1, 9, time.Minute)), false, 3)
	lease := leaseOf(row, 1, 0, time.Hour)
	if !w.renew(t, lease)[0] {
		t.Error("a held lease was not renewed after the places were lowered")
	}
	w.Clock.Advance(time.Minute)
	entered(t, "the renewed one is left", w.enter(t, slotOf(row, 1, 9, time.Minute)), false, 1)
}

func slotsAreApart(t *testing.T, w World) {
	one := slotOf(Tenant("ten_a"), 1, 1, time.Minute)
	other := one
	other.Hash++
	for _, slot := range []limiter.Slot{one, other, slotOf(Tenant("ten_b"), 1, 1, time.Minute), slotOf(inTenant("ten_a", "u"), 1, 1, time.Minute)} {
		entered(t, fmt.Sprint(slot.Row, slot.Hash), w.enter(t, slot), true, 1)
	}
	w.release(t, other.Held())
	entered(t, "the other's release", w.enter(t, slotOf(Tenant("ten_a"), 1, 2, time.Minute)), false, 1)
	both := w.enter(t, slotOf(Tenant("ten_c"), 1, 1, time.Minute), slotOf(inTenant("ten_c", "u"), 1, 1, time.Minute))
	if !both.Admitted || both.Slots[0].Active != 1 || both.Slots[1].Active != 1 {
		t.Errorf("two slots in one draw: %+v", both)
	}
}
