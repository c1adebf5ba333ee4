package console_test

import (
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// TestKeyUses_WhatIsCollectedDecidesWhichKeysAreShownAsUnused: a batch that a gateway
// sent takes a key out of the never used ones, in the collector's transaction; one
// that was only refused, or had another secret, does not.
func TestKeyUses_WhatIsCollectedDecidesWhichKeysAreShownAsUnused(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	used, refused, again := w.issued(t), w.issued(t), w.issued(t)
	shown := func(show console.KeyShow) []string {
		t.Helper()
		got := w.shown(t, console.KeyQuery{Show: show}, 100)
		slices.Sort(got)
		return got
	}
	want := func(when string, show console.KeyShow, kids ...string) {
		t.Helper()
		slices.Sort(kids)
		if got := shown(show); !slices.Equal(got, kids) {
			t.Errorf("%s, %s: %v, want %v", when, show, got, kids)
		}
	}
	w.alive(time.Hour, "gw_a")
	want("at first", console.ShowNever, used, refused, again)
	w.send(t, w.batch("gw_a", 1, w.used(used, home, "curl/8", -3, 5), w.refused(refused, home, -3, 2), w.used(again, home, "curl/8", -3, 1)))
	want("before it is collected", console.ShowNever, used, refused, again)
	w.collect(t)
	want("collected", console.ShowNever, refused)
	want("collected", console.ShowUnused)

	w.clock.add(89 * dayLong)
	w.send(t, w.batch("gw_a", 2, w.used(again, office, "curl/8", -3, 1)))
	w.collect(t)
	want("after 89 days", console.ShowUnused)
	w.clock.add(2 * dayLong)
	want("after 91 days", console.ShowUnused, used, refused) // as old as it is, and never used
	w.send(t, w.batch("gw_a", 3, w.used(used, home, "curl/8", -3, 1)))
	w.collect(t)
	want("used again", console.ShowUnused, refused)
	want("used again", console.ShowNever, refused)
}
