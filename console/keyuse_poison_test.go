package console_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
)

// TestKeyUses_PoisonedCountsStopNobody: whoever may write to the stream may write
// numbers whose sums no column holds. What others tell is learnt all the same, and
// pages that add up read on.
func TestKeyUses_PoisonedCountsStopNobody(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	w.alive(time.Hour, "gw_a")
	poison := make([]usage.KeyRow, usage.MaxKeyRows)
	for i := range poison { // the same source again and again, and as much as a row can count
		poison[i] = w.used(kid, home, "curl/8", -5, 1<<53)
	}
	w.send(t, w.batch("gw_x", 1, poison[:1500]...)) // 1500 × 2^53 is below zero in 64 bits
	for i := range poison {
		poison[i].Requests = 1 << 40
	}
	for seq := range int64(6) {
		w.send(t, w.batch("gw_y", seq+1, poison...))
	}
	w.send(t, w.batch("gw_a", 1, w.used(kid, office, "curl/8", -3, 7)))
	w.collect(t)
	u, age := w.use(t, kid)
	if !same(u.LastUsedAt, w.sec(-3)) || age.Behind {
		t.Fatalf("use is %+v, age %+v", u, age)
	}
	if list := w.sources(t, kid); len(list) != 2 || list[0].Requests != 7 {
		t.Fatalf("sources are %+v", list)
	}
}

// TestKeyUses_ForgedNumbersSilenceNoReplica: a batch in a replica's name with a
// number far ahead must not make everything that the replica tells later a repetition.
func TestKeyUses_ForgedNumbersSilenceNoReplica(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	w.alive(time.Hour, "gw_a")
	w.send(t, w.batch("gw_a", 1, w.used(kid, home, "curl/8", -5, 1)))
	forged := w.batch("gw_a", 1<<52)
	forged.Through = w.sec(100_000)
	w.send(t, forged)
	w.collect(t)
	for seq := int64(2); seq < 6; seq++ {
		w.clock.add(5 * time.Second)
		b := w.batch("gw_a", seq, w.used(kid, home, "curl/8", -1, 1))
		b.From, b.Through = w.sec(-6), w.sec(-2)
		w.send(t, b, b) // and again, as after an error
		w.collect(t)
	}
	w.alive(time.Hour, "gw_a")
	w.again()
	u, age := w.use(t, kid)
	if !same(u.LastUsedAt, w.sec(-1)) || age.Behind || age.Through.Unix() != w.sec(-2) {
		t.Fatalf("use is %+v, age %+v", u, age)
	}
	if age.Missing == nil {
		t.Fatal("nothing is missing, although numbers are")
	}
	if list := w.sources(t, kid); len(list) != 1 || list[0].Requests < 3 || list[0].Requests > 5 {
		t.Fatalf("sources are %+v", list)
	}
}

// TestKeyUses_ForgedReplicasAreBounded, and hide none that is there.
func TestKeyUses_ForgedReplicasAreBounded(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	w.alive(time.Hour, "gw_z")
	for i := range 300 {
		w.send(t, w.batch(fmt.Sprintf("aa_%04d", i), 1))
	}
	w.collect(t)
	w.clock.add(5 * time.Second)
	w.alive(time.Hour, "gw_z")
	w.send(t, w.batch("gw_z", 1, w.used(kid, home, "curl/8", -5, 1)))
	w.collect(t)
	limited := console.NewKeyUses(w.deps, w.fleet, console.KeyUseRetention{Runs: 100})
	if err := limited.Sweep(w.ctx); err != nil {
		t.Fatal(err)
	}
	var runs []console.KeyUseRun
	err := w.store.Read(w.ctx, func(tx console.Tx) (err error) {
		runs, err = tx.KeyUseRunsSince(w.ctx, w.clock.now().Add(-time.Hour))
		return err
	})
	if err != nil || len(runs) != 100 {
		t.Fatalf("%d runs are kept, error %v", len(runs), err)
	}
	if _, age := w.use(t, kid); age.Behind || len(age.Silent) != 0 {
		t.Fatalf("age is %+v", age)
	}
}

// TestKeyUses_ARedisClockThatStepsBackVouchesForNothing: what was told by a clock
// that was an hour ahead is not known of the hour that comes again.
func TestKeyUses_ARedisClockThatStepsBackVouchesForNothing(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	w.feed.skew = time.Hour
	w.alive(2*time.Hour, "gw_a")
	ahead := w.batch("gw_a", 1)
	ahead.From, ahead.Through = w.sec(3600-7), w.sec(3600-2)
	w.send(t, ahead)
	w.collect(t)
	w.feed.skew = 0
	w.alive(2*time.Hour, "gw_a")
	w.again()
	if _, age := w.use(t, kid); !age.Behind {
		t.Fatalf("an hour that is still to come is known: %+v", age)
	}
	next := w.batch("gw_a", 2)
	next.From, next.Through = ahead.Through+1, ahead.Through // a replica never goes back
	w.send(t, next)
	w.collect(t)
	if _, age := w.use(t, kid); age.Behind || age.Through.After(w.clock.now()) {
		t.Fatalf("after the next batch: %+v", age)
	}
	w.clock.add(2 * time.Minute)
	w.alive(2*time.Hour, "gw_a")
	w.again()
	if _, age := w.use(t, kid); !age.Behind {
		t.Fatalf("silent for two minutes: %+v", age)
	}
}

// TestKeyUses_WhoNeverToldIsMissed: a run that ended before it told anything, also
// after one that ended in order, leaves a gap.
func TestKeyUses_WhoNeverToldIsMissed(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"after a run in order": true, "new": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newUseWorld(t)
			kid := w.issued(t)
			w.alive(time.Hour, "gw_a")
			w.send(t, w.batch("gw_a", 1))
			if before {
				last := w.batch("gw_b", 1)
				last.Final, last.Boot = true, "earlier"
				w.send(t, last)
			}
			w.collect(t)
			w.clock.add(10 * time.Minute)
			started, heard := w.sec(-500), w.sec(-100)
			w.alive(time.Hour, "gw_a")
			w.feed.set(func() {
				b := w.feed.beats[0]
				b.ID, b.Boot, b.Started, b.At = "gw_b", "later", time.Unix(started, 0), time.Unix(heard, 0)
				w.feed.beats = append(w.feed.beats, b)
			})
			now := w.batch("gw_a", 2)
			w.send(t, now)
			w.collect(t)
			w.again()
			_, age := w.use(t, kid)
			if m := age.Missing; age.Behind || m == nil || m.Replica != "gw_b" || m.From.Unix() != started || m.To.Unix() != heard {
				t.Fatalf("age is %+v, missing %+v; want %d to %d", age, age.Missing, started, heard)
			}
		})
	}
}

// TestRotation_I19_NotReadyWhileSomethingIsMissing: a long stretch that nobody knows
// of begins the silence anew.
func TestRotation_I19_NotReadyWhileSomethingIsMissing(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	issued := w.issue(t, w.tenant(t, "Acme").ID)
	w.deps.KeyUse = w.uses
	rotations := console.NewRotations(w.deps)
	w.alive(time.Hour, "gw_a")
	w.send(t, w.batch("gw_a", 1))
	w.collect(t)
	started, err := rotations.Start(w.ctx, owner, issued.Credential.ID, console.NewRotation{Overlap: 24 * time.Hour, Reason: "routine"})
	if err != nil {
		t.Fatal(err)
	}
	evidence := func() console.Evidence {
		t.Helper()
		w.alive(20*time.Hour, "gw_a")
		w.again()
		w.deps.KeyUse = w.uses
		ev, err := console.NewRotations(w.deps).Evidence(w.ctx, owner, started.Rotation.ID)
		if err != nil {
			t.Fatal(err)
		}
		return ev
	}
	w.clock.add(7 * time.Hour)
	late := w.batch("gw_a", 4) // 2 and 3 were lost, and nobody knows what was in them
	w.send(t, late)
	w.collect(t)
	if ev := evidence(); ev.Ready || ev.WhyNot == "" || ev.Age.Missing == nil {
		t.Fatalf("ready with seven hours of which nothing is known: %+v", ev)
	}
	w.clock.add(7 * time.Hour)
	quiet := w.batch("gw_a", 5)
	w.send(t, quiet)
	w.collect(t)
	if ev := evidence(); !ev.Ready {
		t.Fatalf("seven whole hours later: %s", ev.WhyNot)
	}
}

// TestKeyUses_AShortGapHidesNoLongOne: what looks at how much is missing sees the
// longest stretch, whatever came after it.
func TestKeyUses_AShortGapHidesNoLongOne(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	w.alive(time.Hour, "gw_a", "gw_b")
	w.send(t, w.batch("gw_a", 1), w.batch("gw_b", 1))
	w.collect(t)
	from := w.sec(-2)
	w.clock.add(7 * time.Hour)
	w.send(t, w.batch("gw_a", 3), w.batch("gw_b", 2))
	w.collect(t)
	to := w.sec(-7)
	w.clock.add(10 * time.Second)
	w.send(t, w.batch("gw_a", 4), w.batch("gw_b", 4))
	w.collect(t)
	w.alive(time.Hour, "gw_a", "gw_b")
	w.again()
	_, age := w.use(t, kid)
	if age.Missing == nil || age.Missing.Replica != "gw_b" || age.Longest == nil || age.Longest.Replica != "gw_a" ||
		age.Longest.From.Unix() != from || age.Longest.To.Unix() != to {
		t.Fatalf("missing is %+v, the longest %+v", age.Missing, age.Longest)
	}
}
