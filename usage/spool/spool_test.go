package spool_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/usage/spool"
)

func TestSpool_OneEventForEachSecondTenantKeyRouteAndOutcome(t *testing.T) {
	t.Parallel()
	s := open(t, spool.Options{Dir: t.TempDir(), Boot: "b1"})
	for i := range 100 {
		var ticket spool.Ticket
		if err := s.Begin(&ticket, entry(t0, i%3, 5)); err != nil {
			t.Fatal(err)
		}
		s.End(&ticket, usage.OutcomeAdmitted)
		s.End(&ticket, usage.OutcomeFallbackAdmitted) // comes too late
		if err := s.Note(entry(t0, i%2, 2), usage.OutcomeFallbackAdmitted); err != nil {
			t.Fatal(err)
		}
		s.Count(entry(t0, 0, 0), usage.OutcomeLimited)
	}
	if err := s.Settle(entry(t0, 0, -3)); err != nil {
		t.Fatal(err)
	}
	if err := s.Cut(t0 + 1); err != nil {
		t.Fatal(err)
	}
	b := newBooks(t)
	b.collect(s, false)
	if got := len(b.events["b1"]); got != 7 {
		t.Fatalf("%d events, want 3 admitted, 2 by fallback, 1 refused, 1 settled", got)
	}
	key := func(tenant string, o usage.Outcome) counted { return counted{t0, tenant, "0123456789AB", "report", o} }
	b.want(sums{
		key("ten_0", usage.OutcomeAdmitted): {34, 170}, key("ten_1", usage.OutcomeAdmitted): {33, 165}, key("ten_2", usage.OutcomeAdmitted): {33, 165},
		key("ten_0", usage.OutcomeFallbackAdmitted): {50, 100}, key("ten_1", usage.OutcomeFallbackAdmitted): {50, 100},
		key("ten_0", usage.OutcomeLimited): {100, 0}, key("ten_0", ledger.OutcomeSettled): {0, -3},
	})
}

func TestSpool_SecondsThatAreNotOverAreHeldBackAndSurviveAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, spool.Options{Dir: dir, Boot: "b1"})
	want := sums{}
	for second := t0 - 1; second <= t0+1; second++ {
		e := entry(second, 1, 4)
		want.add(e, usage.OutcomeAdmitted, 1)
		if err := s.Note(e, usage.OutcomeAdmitted); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Cut(t0); err != nil {
		t.Fatal(err)
	}
	b := newBooks(t)
	b.collect(s, true)
	if n := len(b.events["b1"]); n != 1 {
		t.Fatalf("%d events before their second was over", n-1)
	}
	again := open(t, spool.Options{Dir: dir, Boot: "b2"}) // the first one is not closed: it was killed
	b.collect(again, true)
	b.want(want)
	if !b.final["b1"] || b.final["b2"] {
		t.Fatalf("ended boots: %v", b.final)
	}
}

func TestSpool_ThroughWaitsForWhatIsUnderWayButNotForLong(t *testing.T) {
	t.Parallel()
	s := open(t, spool.Options{Dir: t.TempDir(), Boot: "b1"})
	var slow spool.Ticket
	if err := s.Begin(&slow, entry(t0, 1, 1)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ now, through int64 }{{t0 + 2, t0 - 1}, {t0 + 4, t0 - 1}, {t0 + 5, t0}, {t0 + 8, t0 + 3}, {t0 + 3, t0 + 3}} {
		if err := s.Cut(step.now); err != nil {
			t.Fatal(err)
		}
		if st := s.Standing(); st.Through != step.through || st.Committed != step.through {
			t.Fatalf("at %d through is %d, committed %d, want %d", step.now-t0, st.Through-t0, st.Committed-t0, step.through-t0)
		}
	}
	s.End(&slow, usage.OutcomeAdmitted)
	if err := s.Cut(t0 + 10); err != nil {
		t.Fatal(err)
	}
	st := s.Standing()
	if st.Through != t0+8 || st.Waiting != 1 || st.Committed != t0+3 {
		t.Fatalf("standing is %+v", st)
	}
	newBooks(t).collect(s, true)
	if st := s.Standing(); st.Committed != t0+8 || st.Waiting != 0 {
		t.Fatalf("after all is committed, standing is %+v", st)
	}
}

// TestSpool_ForgetsWhatTheLedgerHas also holds the intents of requests that take long:
// they outlive the files that they were first written to.
func TestSpool_ForgetsWhatTheLedgerHas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := spool.On(spool.Options{Dir: dir, Boot: "b1"}, spool.RealDisk(), 4<<10)
	s := open(t, o)
	b, want := newBooks(t), sums{}
	var stream, killed spool.Ticket
	for _, begun := range []*spool.Ticket{&stream, &killed} {
		if err := s.Begin(begun, entry(t0, 9, 7)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range int64(2000) {
		e := entry(t0+i/20, 1, 1)
		if err := s.Note(e, usage.OutcomeAdmitted); err != nil {
			t.Fatal(err)
		}
		want.add(e, usage.OutcomeAdmitted, 1)
		if i%20 == 0 {
			if err := s.Cut(t0 + i/20); err != nil {
				t.Fatal(err)
			}
			b.collect(s, true)
		}
	}
	if raw, cut := len(files(t, dir, "raw")), len(files(t, dir, "cut")); raw > 4 || cut > 4 {
		t.Fatalf("%d and %d files are left", raw, cut)
	}
	s.End(&stream, usage.OutcomeAdmitted)
	want.add(entry(t0, 9, 7), usage.OutcomeAdmitted, 1)
	want.add(entry(t0, 9, 7), ledger.OutcomeInterrupted, 1)
	o.Boot = "b2"
	again := open(t, o)
	b.collect(again, true)
	b.want(want)
	if st := again.Standing(); st.Totals.Interrupted != 1 || st.Totals.Lost != 0 {
		t.Fatalf("totals are %+v", st.Totals)
	}
}

func TestSpool_AnInterruptedRequestIsToldOnceHoweverManyStartsFollow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, spool.Options{Dir: dir, Boot: "b0"})
	var ticket spool.Ticket
	if err := s.Begin(&ticket, entry(t0, 1, 3)); err != nil {
		t.Fatal(err)
	}
	b, want := newBooks(t), sums{}
	want.add(entry(t0, 1, 3), ledger.OutcomeInterrupted, 1)
	for i := range 5 {
		s = open(t, spool.Options{Dir: dir, Boot: fmt.Sprintf("b%d", i+1)})
		b.collect(s, i%2 == 1)
	}
	b.want(want)
}

func TestSpool_FinishHoldsNothingBackAndEndsTheBoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, spool.Options{Dir: dir, Boot: "b1"})
	if err := s.Note(entry(t0+50, 1, 3), usage.OutcomeAdmitted); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	b := newBooks(t)
	b.collect(s, true)
	if len(b.events["b1"]) != 1 || !b.final["b1"] {
		t.Fatalf("events %v, final %v", b.events, b.final)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, spool.Options{Dir: dir, Boot: "b2"})
	if left := again.Waiting(); len(left) != 0 {
		t.Fatalf("%d batches wait after everything was committed", len(left))
	}
}

func TestSpool_AnEndWithoutEventsIsToldBeforeItIsForgotten(t *testing.T) {
	t.Parallel()
	s := open(t, spool.Options{Dir: t.TempDir(), Boot: "b1"})
	if err := s.Note(entry(t0, 1, 3), usage.OutcomeAdmitted); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Cut(t0+5), s.Finish()); err != nil {
		t.Fatal(err)
	}
	s.Committed("b1", 1)
	left := s.Waiting()
	if len(left) != 1 || left[0].First != 2 || left[0].Last != 1 {
		t.Fatalf("what waits is %+v, want the end of the boot", left)
	}
	s.Sent(left[0])
	if s.Committed("b1", 1); len(s.Waiting()) != 0 {
		t.Fatal("an end that was told is still told")
	}
}

func TestSpool_ManyEventsMakeSeveralBatches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, spool.Options{Dir: dir, Boot: "b1"})
	want := sums{}
	for i := range ledger.MaxEvents + 10 {
		e := entry(t0, i, 1)
		want.add(e, usage.OutcomeAdmitted, 1)
		if err := s.Note(e, usage.OutcomeAdmitted); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Cut(t0 + 5); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Waiting()); n != 2 {
		t.Fatalf("%d batches, want 2", n)
	}
	b := newBooks(t)
	b.collect(open(t, spool.Options{Dir: dir, Boot: "b2"}), false)
	b.want(want)
}

func TestSpool_RefusalsOfManyTenantsAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, spool.Options{Dir: t.TempDir(), Boot: "b1"})
	const tenants = 40_000
	for i := range tenants {
		s.Count(entry(t0, i, 0), usage.OutcomeLimited)
	}
	if err := s.Cut(t0 + 5); err != nil {
		t.Fatal(err)
	}
	b := newBooks(t)
	b.collect(s, true)
	var n, rest int64
	for k, v := range b.sums() {
		n += v[0]
		if k.tenant == usage.Rest {
			rest += v[0]
		}
	}
	if n != tenants || rest == 0 {
		t.Fatalf("%d refusals of %d, %d of them of the rest", n, tenants, rest)
	}
}

func TestSpool_CostsBeyondOneEventTakeSeveral(t *testing.T) {
	t.Parallel()
	s := open(t, spool.Options{Dir: t.TempDir(), Boot: "b1"})
	want := sums{}
	for range 70 {
		e := entry(t0, 1, 1<<48-1)
		want.add(e, usage.OutcomeAdmitted, 1)
		if err := s.Note(e, usage.OutcomeAdmitted); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Cut(t0 + 5); err != nil {
		t.Fatal(err)
	}
	b := newBooks(t)
	b.collect(s, true)
	b.want(want)
}

func TestSpool_NothingThatIsNotedCanStopACut(t *testing.T) {
	t.Parallel()
	s := open(t, spool.Options{Dir: t.TempDir(), Boot: "b1"})
	long := string(make([]byte, 2000))
	for _, e := range []spool.Entry{
		{Second: -5, Tenant: long, KID: long, Route: long, Cost: 1}, {Second: 1 << 62, Tenant: "\x00\xff", Cost: 1}, {},
	} {
		if err := s.Note(&e, usage.OutcomeAdmitted); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Cut(t0); err != nil {
		t.Fatal(err)
	}
	if st := s.Standing(); st.Waiting != 3 {
		t.Fatalf("%d events wait, want 3", st.Waiting)
	}
}

func TestSpool_ConcurrentUseLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, spool.On(spool.Options{Dir: dir, Boot: "b1"}, spool.RealDisk(), 16<<10))
	const workers, each = 8, 300
	b := newBooks(t)
	var working, cutting sync.WaitGroup
	over := make(chan struct{})
	cutting.Go(func() {
		for now := t0; ; now++ {
			select {
			case <-over:
				return
			default:
			}
			if err := s.Cut(now); err != nil {
				t.Error(err)
			}
			b.collect(s, now%2 == 0)
		}
	})
	for w := range workers {
		working.Go(func() {
			for i := range each {
				var ticket spool.Ticket
				if err := s.Begin(&ticket, entry(t0+int64(i/10), w, 2)); err != nil {
					t.Error(err)
				}
				s.End(&ticket, usage.OutcomeAdmitted)
				if err := s.Note(entry(t0+int64(i/10), w, 1), usage.OutcomeFallbackAdmitted); err != nil {
					t.Error(err)
				}
				s.Count(entry(t0, w, 0), usage.OutcomeLimited)
				_ = s.Standing()
			}
		})
	}
	working.Wait()
	close(over)
	cutting.Wait()
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	b.collect(s, true)
	want := sums{}
	for w := range workers {
		for i := range each {
			want.add(entry(t0+int64(i/10), w, 2), usage.OutcomeAdmitted, 1)
			want.add(entry(t0+int64(i/10), w, 1), usage.OutcomeFallbackAdmitted, 1)
			want.add(entry(t0, w, 0), usage.OutcomeLimited, 1)
		}
	}
	b.want(want)
}

func TestOpen_ProblemsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	if _, err := spool.Open(spool.Options{Dir: t.TempDir(), Replica: "gw_a", Boot: "b", Limit: 1000}); err == nil {
		t.Error("a spool of 1000 bytes is opened")
	}
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := spool.Open(spool.Options{Dir: file, Replica: "gw_a", Boot: "b"}); err == nil {
		t.Error("a file is opened as a spool")
	}
}
