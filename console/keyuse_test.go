package console_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
)

func TestKeyUses_TellFirstAndLastUseWithItsSource(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	w.alive(99*time.Second, "gw_a", "gw_b")
	if u, age := w.use(t, kid); u.KID != "" || !age.Through.IsZero() || !age.Since.IsZero() || !age.Behind {
		t.Fatalf("before anything is known it says %+v, %+v", u, age)
	}
	limited := w.used(kid, home, "curl/8", -30, 5)
	limited.FirstUsed, limited.Limited = w.sec(-50), 2
	w.send(t, w.batch("gw_a", 1, limited), w.batch("gw_b", 1, w.used(kid, office, "python-requests/2", -20, 1), w.refused(kid, home, -10, 3)))
	w.collect(t)
	u, age := w.use(t, kid)
	if !same(u.FirstUsedAt, w.sec(-50)) || !same(u.LastUsedAt, w.sec(-20)) || u.LastNetwork != office || u.LastAgent != "python-requests/2" ||
		!same(u.RefusedAt, w.sec(-10)) || u.RefusedNetwork != home || u.Requests24h != 9 || u.Refused24h != 5 {
		t.Fatalf("use is %+v", u)
	}
	if age.Since.Unix() != w.sec(-2) || age.Through.Unix() != w.sec(-2) || age.Behind || age.Missing != nil {
		t.Fatalf("age is %+v", age)
	}
	// An older use of a replica that was late does not take the last one back.
	w.send(t, w.batch("gw_a", 2, w.used(kid, home, "late/1", -40, 1)))
	w.collect(t)
	if u, _ := w.use(t, kid); !same(u.LastUsedAt, w.sec(-20)) || u.LastNetwork != office || u.Requests24h != 10 {
		t.Fatalf("use is %+v", u)
	}
	before := w.sec(-30)
	w.clock.add(25 * time.Hour)
	w.send(t, w.batch("gw_a", 3, w.used(kid, home, "curl/8", -3, 1)))
	w.collect(t)
	if u, _ := w.use(t, kid); u.Requests24h != 1 || u.Refused24h != 0 || u.LastNetwork != home {
		t.Fatalf("a day later use is %+v", u)
	}
	list := w.sources(t, kid)
	if len(list) != 3 || list[0].Network != home || list[0].Agent != "curl/8" || list[1].Network != office || list[2].Agent != "late/1" {
		t.Fatalf("sources are %+v", list)
	}
	first := list[0]
	if first.Requests != 9 || first.Limited != 2 || first.Refused != 3 || first.FirstSeen.Unix() != before-20 || first.LastSeen.Unix() != w.sec(-3) ||
		!same(first.UsedAt, w.sec(-3)) || !same(first.RefusedAt, before+20) || first.LongestGap != time.Duration(w.sec(-3)-before-20)*time.Second {
		t.Fatalf("the first source is %+v", first)
	}
	if some, _, err := w.uses.Sources(w.ctx, kid, w.clock.now().Add(-time.Hour), 10); err != nil || len(some) != 1 {
		t.Fatalf("sources of the last hour are %+v, %v", some, err)
	}
	if some, _, err := w.uses.Sources(w.ctx, kid, time.Time{}, 2); err != nil || len(some) != 2 {
		t.Fatalf("two sources are %+v, %v", some, err)
	}
}

// TestKeyUses_EachBatchCountsOnce, however often it is sent and read, by however many
// consoles.
func TestKeyUses_EachBatchCountsOnce(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	w.alive(99*time.Second, "gw_a", "gw_b", "gw_c")
	for seq := int64(1); seq <= 40; seq++ {
		b := w.batch("gw_"+string(rune('a'+seq%3)), 1+(seq-1)/3, w.used(kid, home, "curl/8", int(seq)-50, 1))
		w.send(t, b)
		if seq%4 == 0 {
			w.send(t, b) // its answer was lost
		}
	}
	other := console.NewKeyUses(w.deps, w.fleet, console.KeyUseRetention{})
	var consoles sync.WaitGroup
	for _, s := range []*console.KeyUses{w.uses, other, w.uses, other} {
		consoles.Go(func() {
			if err := s.Collect(w.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	consoles.Wait()
	if u, age := w.use(t, kid); u.Requests24h != 40 || age.Missing != nil {
		t.Fatalf("%d requests, want 40; missing %+v", u.Requests24h, age.Missing)
	}
	// The stream was replaced by an older copy of itself: it is read from its beginning.
	if err := w.store.InTx(w.ctx, func(tx console.Tx) error { return tx.SetKeyUsePlace(w.ctx, "", nil, w.clock.now()) }); err != nil {
		t.Fatal(err)
	}
	w.again()
	w.collect(t)
	if u, _ := w.use(t, kid); u.Requests24h != 40 {
		t.Fatalf("%d requests after all of it was read again", u.Requests24h)
	}
}

// TestKeyUses_WhatCannotBeIsNotBelieved: the future counts as now, ages ago as a week
// ago, unknown keys and noise as nothing.
func TestKeyUses_WhatCannotBeIsNotBelieved(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	w.feed.skew = 10 * time.Minute // the console's clock is late; Redis' counts
	kid := w.issued(t)
	b := w.batch("gw_a", 1, w.used(kid, home, "curl/8", 86400, 1), w.used("unknownunkno", home, "curl/8", -3, 1))
	b.Through = w.sec(86400)
	old := w.used(kid, office, "curl/8", -3, 1)
	old.FirstUsed = 5
	w.feed.stream = append(w.feed.stream, []byte("noise"))
	w.send(t, b, w.batch("gw_b", 1, old))
	w.collect(t)
	u, age := w.use(t, kid)
	if now := w.sec(600); !same(u.LastUsedAt, now) || age.Through.Unix() != now || u.FirstUsedAt.Unix() < now-9*86400 || u.Requests24h != 2 {
		t.Fatalf("use is %+v, through %v; want at most %d", u, age.Through, now)
	}
	if all, _, err := w.uses.Uses(w.ctx, []string{"unknownunkno"}); err != nil || len(all) != 0 {
		t.Fatalf("a key that nobody has issued is known: %+v, %v", all, err)
	}
}

// TestKeyUses_ManySourcesOfAKeyEndInItsRest, and those that are known stay apart.
func TestKeyUses_ManySourcesOfAKeyEndInItsRest(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid, other := w.issued(t), w.issue(t, w.tenant(t, "Globex").ID).KeyVersion.KID
	row := func(i int) usage.KeyRow {
		return w.used(kid, fmt.Sprintf("10.%d.%d.0/24", i/250, i%250), "curl/8", -5, 1)
	}
	for page := range 4 {
		b := w.batch("gw_a", int64(page+1), w.used(other, home, "curl/8", -5, 1))
		for i := range 100 {
			b.Rows = append(b.Rows, row(100*page+i))
		}
		w.send(t, b)
	}
	w.send(t, w.batch("gw_a", 5, row(0), row(399)))
	w.collect(t)
	list := w.sources(t, kid)
	var rest, sum int64
	for _, s := range list {
		if sum += s.Requests; s.Rest() {
			rest = s.Requests
		}
		if s.Network == "10.0.0.0/24" && s.Requests != 2 {
			t.Errorf("the first source has %d requests", s.Requests)
		}
	}
	if len(list) != 201 || sum != 402 || rest != 201 {
		t.Fatalf("%d sources with %d requests, %d of the rest", len(list), sum, rest)
	}
	if list := w.sources(t, other); len(list) != 1 || list[0].Requests != 4 {
		t.Fatalf("another key's are %+v", list)
	}
}

func TestKeyUses_OldSourcesAndHoursAreForgotten(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	w.uses = console.NewKeyUses(w.deps, w.fleet, console.KeyUseRetention{Sources: 20 * 24 * time.Hour})
	kid := w.issued(t)
	w.send(t, w.batch("gw_a", 1, w.used(kid, home, "curl/8", -5, 1)))
	w.collect(t)
	last := w.sec(-5)
	w.clock.add(12 * 24 * time.Hour)
	w.send(t, w.batch("gw_b", 1, w.used(kid, office, "curl/8", -5, 1)))
	w.collect(t)
	sweep := func() {
		t.Helper()
		if err := w.uses.Sweep(w.ctx); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	if list := w.sources(t, kid); len(list) != 2 {
		t.Fatalf("sources are %+v", list)
	}
	w.clock.add(10 * 24 * time.Hour)
	sweep()
	if list := w.sources(t, kid); len(list) != 1 || list[0].Network != office {
		t.Fatalf("sources are %+v", list)
	}
	err := w.store.Read(w.ctx, func(tx console.Tx) error {
		runs, err := tx.KeyUseRunsSince(w.ctx, time.Time{})
		if len(runs) != 0 {
			t.Errorf("runs are %+v", runs)
		}
		uses, err2 := tx.KeyUses(w.ctx, []string{kid}, time.Unix(0, 0))
		if len(uses) != 1 || uses[0].Requests24h != 0 || !same(uses[0].FirstUsedAt, last) {
			t.Errorf("use is %+v", uses)
		}
		return errors.Join(err, err2)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestKeyUses_RunGoesOnAfterAnOutage, and says once that it stands still.
func TestKeyUses_RunGoesOnAfterAnOutage(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	w.feed.fail(errors.New("refused"))
	run(t, w.uses.Run)
	reads := func(n int) {
		w.feed.asked(t, "the stream is read", func() bool { w.feed.mu.Lock(); defer w.feed.mu.Unlock(); return w.feed.reads >= n })
	}
	reads(2)
	w.send(t, w.batch("gw_a", 1, w.used(kid, home, "curl/8", -5, 1)))
	w.feed.fail(nil)
	w.feed.asked(t, "the use is known", func() bool {
		all, _, err := w.uses.Uses(w.ctx, []string{kid})
		return err == nil && len(all) == 1
	})
}

// TestKeyUses_AFeedWithoutUsesIsNone: a console of gateways that tell nothing works,
// and never says "never".
func TestKeyUses_AFeedWithoutUsesIsNone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	uses := console.NewKeyUses(e.deps, e.fleet, console.KeyUseRetention{})
	if err := uses.Collect(e.ctx); err != nil {
		t.Fatal(err)
	}
	if all, age, err := uses.Uses(e.ctx, nil); err != nil || len(all) != 0 || !age.Behind {
		t.Fatalf("%+v, %+v, %v", all, age, err)
	}
}

// TestKeyUses_MovesTheFiltersOfKeys: a key that is used is no longer in "never used".
func TestKeyUses_MovesTheFiltersOfKeys(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	never := func() (n int) {
		t.Helper()
		err := w.store.Read(w.ctx, func(tx console.Tx) error {
			list, err := tx.ShownKeys(w.ctx, console.KeyQuery{Show: console.ShowNever}, w.clock.now(), console.Cursor{}, 10)
			n = len(list)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	w.clock.add(30 * 24 * time.Hour)
	w.send(t, w.batch("gw_a", 1, w.refused(kid, home, -5, 1)))
	w.collect(t)
	if n := never(); n != 1 {
		t.Fatalf("%d keys were never used, want one", n)
	}
	w.send(t, w.batch("gw_a", 2, w.used(kid, home, "curl/8", -5, 1)))
	w.collect(t)
	if n := never(); n != 0 {
		t.Fatalf("%d keys were never used, want none", n)
	}
}
