package console_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/decisionlog"
)

// decisionFeed is a fakeFeed with a stream of decisions; places are numbers.
type decisionFeed struct {
	*fakeFeed
	mu     sync.Mutex
	stream [][]byte
	broken error
	reads  int
	kept   chan struct{} // closed when everything up to it was kept
}

func (f *decisionFeed) Decisions(_ context.Context, after string) ([][]byte, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.broken != nil {
		return nil, after, f.broken
	}
	from, _ := strconv.Atoi(after)
	if from > len(f.stream) {
		return nil, "", nil // it was lost, and begins anew
	}
	to := min(from+3, len(f.stream))
	if to == from {
		if f.kept != nil && from > 0 {
			close(f.kept)
			f.kept = nil
		}
		return nil, after, nil
	}
	return f.stream[from:to], strconv.Itoa(to), nil
}

func (f *decisionFeed) add(bodies ...[]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stream = append(f.stream, bodies...)
}

// logWorld is a console with a decision log.
type logWorld struct {
	*env
	feed *decisionFeed
	log  *console.Decisions
}

func newLogWorld(t *testing.T, keep console.DecisionRetention) *logWorld {
	t.Helper()
	e := newEnv(t)
	w := &logWorld{env: e, feed: &decisionFeed{fakeFeed: e.feed}}
	w.deps.Feed = w.feed
	w.log = console.NewDecisions(w.deps, keep)
	return w
}

// body is a batch of a replica whose entries lie so many seconds from now.
func (w *logWorld) body(t *testing.T, replica string, seq int64, seconds ...float64) []byte {
	t.Helper()
	b := decisionlog.Batch{Replica: replica, Boot: "boot_" + replica, Seq: seq, Sample: decisionlog.Whole >> min(seq, 4), Dropped: seq, Unjudged: 2}
	for i, s := range seconds {
		at := w.at(s).UnixMicro()
		b.Entries = append(b.Entries, decisionlog.Entry{Kind: decisionlog.KindDecision, At: at, Seq: seq*100 + int64(i), Tenant: replica})
		b.From, b.To = b.Entries[0].At, at
	}
	if len(seconds) == 0 {
		b.From, b.To = w.at(0).UnixMicro(), w.at(0).UnixMicro()
	}
	body, err := decisionlog.Encode(&b)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func (w *logWorld) at(seconds float64) time.Time {
	return w.clock.now().Add(time.Duration(seconds * float64(time.Second)))
}

// merged is the log of a span, as replica@second of each entry.
func (w *logWorld) merged(t *testing.T, from, to float64) (out []string) {
	t.Helper()
	log, err := w.log.Range(w.ctx, w.at(from), w.at(to))
	if err != nil {
		t.Fatal(err)
	}
	err = decisionlog.Merge(w.ctx, log, func(b *decisionlog.Batch, e *decisionlog.Entry) error {
		if b.Replica != e.Tenant {
			t.Errorf("an entry of %s is said to be of %s", e.Tenant, b.Replica)
		}
		out = append(out, fmt.Sprintf("%s@%g", e.Tenant, time.UnixMicro(e.At).Sub(w.clock.now()).Seconds()))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDecisions_AreKeptOnceAndComeBackInTheOrderOfTheStore(t *testing.T) {
	t.Parallel()
	w := newLogWorld(t, console.DecisionRetention{})
	w.feed.add(
		w.body(t, "a", 1, -9, -7), w.body(t, "b", 1, -8.5, -6), w.body(t, "a", 2, -6.5, -5), w.body(t, "b", 2, -5.5), w.body(t, "a", 1, -9, -7),
		[]byte("no batch"), w.body(t, "c", 1, -100, -99),
	)
	for range 2 {
		if err := w.log.Collect(w.ctx); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"a@-9", "b@-8.5", "a@-7", "a@-6.5", "b@-6", "b@-5.5", "a@-5"}
	if got := w.merged(t, -10, 0); !slices.Equal(got, want) {
		t.Errorf("log is %v, want %v", got, want)
	}
	if got := w.merged(t, -5.2, 0); !slices.Equal(got, []string{"a@-6.5", "a@-5"}) {
		t.Errorf("batches that reach into the last seconds are %v", got)
	}
	totals, err := w.log.Totals(w.ctx, w.at(-10), w.at(0))
	if err != nil {
		t.Fatal(err)
	}
	if totals.Batches != 4 || totals.Entries != 7 || totals.Dropped != 6 || totals.Unjudged != 8 || totals.Sample != decisionlog.Whole/4 ||
		!totals.First.Equal(w.at(-9)) || !totals.Last.Equal(w.at(-5)) || totals.Bytes == 0 {
		t.Errorf("totals are %+v", totals)
	}
	log, _ := w.log.Range(w.ctx, w.at(-10), w.at(0))
	var heads []string
	if err := log.Batches(w.ctx, func(b *decisionlog.Batch) error {
		heads = append(heads, fmt.Sprintf("%s/%s/%d %d %d %d %v", b.Replica, b.Boot, b.Seq, b.Sample, b.Dropped, b.Unjudged, b.From < b.To))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(heads) != 4 || heads[0] != "a/boot_a/1 32768 1 2 true" || heads[3] != "b/boot_b/2 16384 2 2 false" {
		t.Errorf("batches are %q", heads)
	}
	if from, to, n := log.Bounds(); n != 7 || !from.Equal(w.at(-9)) || !to.Equal(w.at(-5)) {
		t.Errorf("bounds are %v to %v, %d entries", from, to, n)
	}
}

func TestDecisions_TheLogOfAQuietTimeIsEmpty(t *testing.T) {
	t.Parallel()
	w := newLogWorld(t, console.DecisionRetention{})
	if got := w.merged(t, -10, 0); len(got) != 0 {
		t.Fatalf("log is %v", got)
	}
	if totals, err := w.log.Totals(w.ctx, w.at(-10), w.at(0)); err != nil || totals.Entries != 0 || totals.Sample != decisionlog.Whole {
		t.Fatalf("totals are %+v, %v", totals, err)
	}
	if _, err := w.log.Range(w.ctx, w.at(0), w.at(0)); console.CodeOf(err) != console.CodeInvalid {
		t.Fatalf("a range without time: %v", err)
	}
	plain := w.deps
	plain.Feed = w.feed.fakeFeed
	none := console.NewDecisions(plain, console.DecisionRetention{}) // a feed that carries none
	if err := none.Collect(w.ctx); err != nil {
		t.Fatal(err)
	}
}

// TestDecisions_TheCollectorGoesOnWhereAnyConsoleLeftOff, begins anew when Redis was
// replaced, and two at once keep each batch once.
func TestDecisions_TheCollectorGoesOnWhereAnyConsoleLeftOff(t *testing.T) {
	t.Parallel()
	w := newLogWorld(t, console.DecisionRetention{})
	for i := range 10 {
		w.feed.add(w.body(t, "a", int64(i+1), float64(i)-20))
	}
	second := console.NewDecisions(w.deps, console.DecisionRetention{})
	var both sync.WaitGroup
	for _, log := range []*console.Decisions{w.log, second} {
		both.Go(func() {
			if err := log.Collect(w.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if got := w.merged(t, -30, 0); len(got) != 10 {
		t.Fatalf("two consoles keep %v", got)
	}
	reads := w.feed.reads
	w.feed.add(w.body(t, "a", 11, -3))
	if err := second.Collect(w.ctx); err != nil || w.feed.reads != reads+2 {
		t.Fatalf("%v, the stream was read %d times", err, w.feed.reads-reads)
	}
	w.feed.stream = [][]byte{w.body(t, "a", 12, -2)} // another Redis
	if err := w.log.Collect(w.ctx); err != nil {
		t.Fatal(err)
	}
	if got := w.merged(t, -30, 0); len(got) != 12 || got[11] != "a@-2" {
		t.Fatalf("log is %v", got)
	}
	w.feed.broken = errors.New("away")
	if err := w.log.Collect(w.ctx); err == nil {
		t.Error("a feed that cannot be read is no error")
	}
}

// TestDecisions_WhatCannotBeIsNotKept: whoever may write to the stream cannot put the log
// out of order, nor make a simulation fail.
func TestDecisions_WhatCannotBeIsNotKept(t *testing.T) {
	t.Parallel()
	w := newLogWorld(t, console.DecisionRetention{})
	broken := func(change func(*decisionlog.Batch)) []byte {
		b := &decisionlog.Batch{Replica: "a", Boot: "b", Seq: 1, From: w.at(-2).UnixMicro(), To: w.at(-1).UnixMicro()}
		b.Entries = []decisionlog.Entry{{Kind: decisionlog.KindDecision, At: b.From}}
		change(b)
		body, err := decisionlog.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	for _, change := range []func(*decisionlog.Batch){
		func(b *decisionlog.Batch) { b.Replica = "" },
		func(b *decisionlog.Batch) { b.Replica = "two\nlines" },
		func(b *decisionlog.Batch) { b.Boot = string(make([]byte, 65)) },
		func(b *decisionlog.Batch) { b.Seq = 0 },
		func(b *decisionlog.Batch) { b.From = w.at(-90_000).UnixMicro(); b.To = b.From },
		func(b *decisionlog.Batch) { b.From = w.at(3600).UnixMicro(); b.To = b.From },
		func(b *decisionlog.Batch) { b.From = w.at(-3700).UnixMicro() },
		func(b *decisionlog.Batch) { b.Entries[0].At = b.From - 1 },
		func(b *decisionlog.Batch) { b.Entries[0].At = b.To + 1 },
	} {
		w.feed.add(broken(change))
	}
	w.feed.add(w.body(t, "good", 1, -1))
	if err := w.log.Collect(w.ctx); err != nil {
		t.Fatal(err)
	}
	if totals, err := w.log.Totals(w.ctx, w.at(-200_000), w.at(200_000)); err != nil || totals.Batches != 1 {
		t.Fatalf("%+v, %v; want one batch", totals, err)
	}
}

func TestDecisions_TheOldestGoByAgeAndByBytes(t *testing.T) {
	t.Parallel()
	w := newLogWorld(t, console.DecisionRetention{Age: time.Hour})
	w.feed.add(w.body(t, "a", 1, -1), w.body(t, "a", 2, -1))
	if err := w.log.Collect(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.clock.add(40 * time.Minute)
	w.feed.add(w.body(t, "b", 1, -1), w.body(t, "b", 2, -1), w.body(t, "b", 3, -1))
	if err := w.log.Collect(w.ctx); err != nil {
		t.Fatal(err)
	}
	batches := func() int64 {
		t.Helper()
		totals, err := w.log.Totals(w.ctx, w.at(-1e5), w.at(1e5))
		if err != nil {
			t.Fatal(err)
		}
		return totals.Batches
	}
	sweep := func(log *console.Decisions, want int64) {
		t.Helper()
		if err := log.Sweep(w.ctx); err != nil {
			t.Fatal(err)
		}
		if got := batches(); got != want {
			t.Errorf("%d batches are left, want %d", got, want)
		}
	}
	sweep(w.log, 5)
	w.clock.add(30 * time.Minute)
	sweep(w.log, 3)
	totals, _ := w.log.Totals(w.ctx, w.at(-1e5), w.at(1e5))
	small := console.NewDecisions(w.deps, console.DecisionRetention{Bytes: totals.Bytes - 1})
	sweep(small, 2)
	if got := w.merged(t, -1e5, 1e5); len(got) != 2 {
		t.Errorf("log is %v", got)
	}
}

func TestDecisions_RunCollectsUntilItEnds(t *testing.T) {
	t.Parallel()
	w := newLogWorld(t, console.DecisionRetention{})
	w.feed.add(w.body(t, "a", 1, -1))
	kept := make(chan struct{})
	w.feed.kept = kept
	run(t, w.log.Run)
	select {
	case <-kept:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was collected")
	}
	if got := w.merged(t, -10, 0); len(got) != 1 {
		t.Fatalf("log is %v", got)
	}
}

// TestDecisions_MuchThatIsOldGoesInSeveralSteps: a console that was away for days must
// not fail for good because one statement would take too long.
func TestDecisions_MuchThatIsOldGoesInSeveralSteps(t *testing.T) {
	t.Parallel()
	w := newLogWorld(t, console.DecisionRetention{Age: time.Hour, Bytes: 30})
	put := func(n int, received time.Time) {
		t.Helper()
		err := w.store.InTx(w.ctx, func(tx console.Tx) error {
			for i := range n {
				row := console.DecisionBatch{Replica: "a", Boot: received.String()[:19], Seq: int64(i + 1), From: received, To: received, ReceivedAt: received, Body: make([]byte, 10)}
				if _, err := tx.InsertDecisionBatch(w.ctx, row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(1100, w.at(-7200))
	put(1100, w.at(-60))
	if err := w.log.Sweep(w.ctx); err != nil {
		t.Fatal(err)
	}
	totals, err := w.log.Totals(w.ctx, w.at(-9000), w.at(0))
	if err != nil || totals.Batches != 3 || !totals.First.Equal(w.at(-60)) {
		t.Fatalf("%+v, %v; want the three newest", totals, err)
	}
}
