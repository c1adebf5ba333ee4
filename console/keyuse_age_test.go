package console_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// TestKeyUses_SayWhatIsMissing: a Redis that lost batches, a replica that ended without
// a word, uses that there was no room for.
func TestKeyUses_SayWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	w.alive(time.Hour, "gw_a", "gw_z")
	w.send(t, w.batch("gw_a", 1, w.used(kid, home, "curl/8", -5, 1)))
	w.collect(t)
	through := w.sec(-2)
	missing := func(what string, from, to int64) {
		t.Helper()
		w.collect(t)
		w.alive(time.Hour, "gw_a", "gw_z")
		w.again()
		_, age := w.use(t, kid)
		if m := age.Missing; m == nil || m.Replica != "gw_a" || m.From.Unix() != from || m.To.Unix() != to {
			t.Fatalf("%s: missing is %+v, want %d to %d", what, age.Missing, from, to)
		}
	}
	w.clock.add(20 * time.Second) // 2 and 3 were in a Redis that was flushed
	w.feed.mu.Lock()
	w.feed.stream, w.feed.lost = nil, 1
	w.feed.mu.Unlock()
	w.send(t, w.batch("gw_a", 4, w.used(kid, home, "curl/8", -5, 1)))
	missing("lost batches", through, w.sec(-7))

	w.clock.add(time.Minute)
	full := w.batch("gw_a", 5, w.used(kid, home, "curl/8", -5, 1))
	full.Lost = 17
	w.send(t, full)
	missing("no room", w.sec(-7), w.sec(-2))

	through = w.sec(-2)
	w.clock.add(time.Minute) // it was killed, and is back
	next := w.batch("gw_a", 1, w.used(kid, home, "curl/8", -5, 1))
	next.Boot, next.Started = "second", w.sec(-20)
	w.send(t, next)
	missing("killed", through, w.sec(-20))

	last := w.batch("gw_a", 2, w.used(kid, home, "curl/8", -1, 1))
	last.Boot, last.Final, last.Through = "second", true, w.sec(0)
	w.send(t, last)
	missing("an end in order", through, w.sec(-20))
	w.clock.add(time.Hour) // one that ended in order leaves no gap
	third := w.batch("gw_a", 1, w.used(kid, home, "curl/8", -5, 1))
	third.Boot, third.Started = "third", w.sec(-20)
	w.send(t, third)
	w.collect(t)
	w.alive(time.Hour, "gw_a", "gw_z")
	if _, age := w.use(t, kid); age.Missing == nil || age.Missing.From.Unix() != through {
		t.Fatalf("missing is %+v, want what was", age.Missing)
	}

	w.clock.add(time.Minute) // another one, of which nobody has seen the first batches
	late := w.batch("gw_z", 9)
	late.Started = w.sec(-400)
	w.send(t, late)
	w.collect(t)
	w.alive(time.Hour, "gw_a", "gw_z")
	if _, age := w.use(t, kid); age.Missing == nil || age.Missing.Replica != "gw_z" || age.Missing.From.Unix() != w.sec(-400) || age.Missing.To.Unix() != w.sec(-7) {
		t.Fatalf("missing is %+v", age.Missing)
	}
	w.clock.add(9 * 24 * time.Hour)
	if _, age := w.use(t, kid); age.Missing != nil {
		t.Fatalf("missing is %+v nine days later", age.Missing)
	}
}

// TestKeyUses_AgeIsThatOfTheLastReplicaThatIsNotGone, and names those that are silent.
func TestKeyUses_AgeIsThatOfTheLastReplicaThatIsNotGone(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	age := func() console.UseAge {
		t.Helper()
		w.again() // what the fleet remembers of before must not matter
		if err := w.store.InTx(w.ctx, func(tx console.Tx) error { return tx.DeleteOldBeats(w.ctx, 0) }); err != nil {
			t.Fatal(err)
		}
		_, a := w.use(t, kid)
		return a
	}
	w.alive(time.Hour, "gw_a", "gw_b")
	w.send(t, w.batch("gw_a", 1))
	w.collect(t)
	if a := age(); !a.Behind || fmt.Sprint(a.Silent) != "[gw_b]" || a.Through.Unix() != w.sec(-3600) {
		t.Fatalf("with one that never told: %+v", a)
	}
	w.send(t, w.batch("gw_b", 1))
	w.collect(t)
	if a := age(); a.Behind || len(a.Silent) != 0 || a.Through.Unix() != w.sec(-2) {
		t.Fatalf("all have told: %+v", a)
	}
	since := w.sec(-2)
	w.clock.add(40 * time.Second)
	w.send(t, w.batch("gw_a", 2))
	w.collect(t)
	w.alive(time.Hour, "gw_a", "gw_b")
	if a := age(); a.Behind || a.Through.Unix() != since {
		t.Fatalf("42 s later: %+v", a)
	}
	w.clock.add(20 * time.Second)
	w.alive(time.Hour, "gw_a", "gw_b")
	if a := age(); !a.Behind || fmt.Sprint(a.Silent) != "[gw_b]" || a.Through.Unix() != since {
		t.Fatalf("a minute later: %+v", a)
	}
	w.alive(time.Hour, "gw_a") // the other one is gone
	if a := age(); a.Behind || a.Through.Unix() != w.sec(-22) {
		t.Fatalf("with one alone: %+v", a)
	}
	w.feed.set(func() { // a new run of it has told nothing yet; its clock is an hour ahead
		w.feed.beats[0].Boot, w.feed.beats[0].Started, w.feed.beats[0].ClockOffsetMS = "new", w.clock.now().Add(time.Hour-3*time.Second), 3_600_000
	})
	if a := age(); a.Behind || a.Through.Unix() != w.sec(-3) {
		t.Fatalf("after a restart: %+v", a)
	}
	w.feed.set(func() { w.feed.beats = nil })
	if a := age(); a.Behind || a.Through.Unix() != w.sec(-22) {
		t.Fatalf("without any: %+v", a)
	}
	w.clock.add(time.Hour)
	if a := age(); !a.Behind {
		t.Fatalf("without any for an hour: %+v", a)
	}
}

// TestKeyUses_RedisAwayMakesItBehindNotUnused: what was known stays known.
func TestKeyUses_RedisAwayMakesItBehindNotUnused(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	w.alive(time.Hour, "gw_a")
	w.send(t, w.batch("gw_a", 1, w.used(kid, home, "curl/8", -5, 1)))
	w.collect(t)
	if _, age := w.use(t, kid); age.Behind {
		t.Fatalf("age is %+v", age)
	}
	w.feed.set(func() { w.feed.down = errors.New("refused") })
	w.feed.fail(errors.New("refused"))
	if err := w.uses.Collect(w.ctx); err == nil {
		t.Fatal("nothing is wrong")
	}
	last := w.sec(-5)
	w.clock.add(50 * time.Second)
	u, age := w.use(t, kid)
	if !same(u.LastUsedAt, last) || age.Behind {
		t.Fatalf("use is %+v, age %+v", u, age)
	}
	w.clock.add(20 * time.Second)
	if u, age = w.use(t, kid); !same(u.LastUsedAt, last) || !age.Behind {
		t.Fatalf("use is %+v, age %+v", u, age)
	}
}

// TestKeyUses_AReplicaThatIsGoneWithoutAWordLeavesAGap, and one that ended in order
// does not.
func TestKeyUses_AReplicaThatIsGoneWithoutAWordLeavesAGap(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	w.alive(time.Hour, "gw_a", "gw_b")
	last := w.batch("gw_b", 1)
	last.Final = true
	w.send(t, w.batch("gw_a", 1), last)
	w.collect(t)
	if _, age := w.use(t, kid); age.Missing != nil {
		t.Fatalf("missing is %+v of replicas that are there", age.Missing)
	}
	from, to := w.sec(-2), w.sec(4)
	w.clock.add(100 * time.Second)
	w.feed.set(func() { // of the first a heartbeat is left, of the other none
		w.feed.beats = w.feed.beats[:1]
		w.feed.beats[0].At = w.clock.now().Add(-96 * time.Second)
	})
	if err := w.store.InTx(w.ctx, func(tx console.Tx) error { return tx.DeleteOldBeats(w.ctx, 0) }); err != nil {
		t.Fatal(err)
	}
	w.again()
	if _, age := w.use(t, kid); age.Missing == nil || age.Missing.Replica != "gw_a" || age.Missing.From.Unix() != from || age.Missing.To.Unix() != to {
		t.Fatalf("missing is %+v, want %d to %d", age.Missing, from, to)
	}
}
