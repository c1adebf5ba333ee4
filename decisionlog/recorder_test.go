package decisionlog_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/decisionlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func decision(tenant string, at int64) *decisionlog.Entry {
	return &decisionlog.Entry{Kind: decisionlog.KindDecision, At: at, Tenant: tenant, Allowed: true}
}

// offer records as a gateway does: of subjects in the sample.
func offer(r *decisionlog.Recorder, e *decisionlog.Entry) {
	if r.Sampled(e.Subject()) {
		r.Add(e, false)
	}
}

func size(cut []decisionlog.Batch) (entries int, dropped int64) {
	for _, b := range cut {
		entries += len(b.Entries)
		dropped += b.Dropped
	}
	return entries, dropped
}

func second(i int) time.Time { return t0.Add(time.Duration(i) * time.Second) }

func TestRecorder_BelowItsRateTheLogIsWholeAndInOrder(t *testing.T) {
	t.Parallel()
	r := decisionlog.NewRecorder("gw_a", "boot", 100)
	base := t0.UnixMicro()
	for _, at := range []int64{30, 10, 20} {
		offer(r, decision("ten_a", base+at))
	}
	r.Unjudged()
	cut := r.Cut(second(1))
	if len(cut) != 1 {
		t.Fatalf("%d batches, want one", len(cut))
	}
	b := cut[0]
	if b.Replica != "gw_a" || b.Boot != "boot" || b.Seq != 1 || b.Sample != decisionlog.Whole || b.Dropped != 0 || b.Unjudged != 1 ||
		b.From != base+10 || b.To != base+30 {
		t.Fatalf("batch is %+v", b)
	}
	for i, want := range []int64{2, 3, 1} { // by the store's time; numbers tell when they came
		if b.Entries[i].Seq != want {
			t.Fatalf("entry %d has number %d, want %d", i, b.Entries[i].Seq, want)
		}
	}
	if cut := r.Cut(second(2)); len(cut) != 0 {
		t.Fatalf("a second cut has %+v", cut)
	}
	offer(r, decision("ten_a", base))
	if cut := r.Cut(second(3)); len(cut) != 1 || cut[0].Seq != 2 || cut[0].Entries[0].Seq != 4 {
		t.Fatalf("numbers do not go on: %+v", cut)
	}
}

// TestRecorder_ABusyLogKeepsSubjectsWhole: whoever is in a batch's sample is in it with
// everything, although the share went down within the second.
func TestRecorder_ABusyLogKeepsSubjectsWhole(t *testing.T) {
	t.Parallel()
	const rate, tenants = 1000, 2000
	r := decisionlog.NewRecorder("gw_a", "boot", rate)
	asked := map[string]int{}
	var log []decisionlog.Batch
	for s := range 30 {
		for i := range 5 * rate {
			tenant := fmt.Sprintf("ten_%d", i*7919%tenants)
			asked[tenant]++
			offer(r, decision(tenant, second(s).UnixMicro()+int64(i)))
		}
		log = append(log, r.Cut(second(s+1))...)
	}
	smallest, logged := decisionlog.Whole, map[string]int{}
	for _, b := range log {
		smallest = min(smallest, b.Sample)
		if b.Dropped != 0 {
			t.Fatalf("batch %d dropped %d", b.Seq, b.Dropped)
		}
		for i := range b.Entries {
			logged[b.Entries[i].Tenant]++
		}
	}
	whole := 0
	for tenant, n := range asked {
		if decisionlog.Bucket(tenant) >= smallest {
			continue
		}
		whole++
		if logged[tenant] != n {
			t.Fatalf("%s asked %d times and is in the log %d times", tenant, n, logged[tenant])
		}
	}
	if smallest > decisionlog.Whole/5 || smallest < decisionlog.Whole/32 || whole == 0 {
		t.Fatalf("the smallest sample is %d, %d tenants are whole", smallest, whole)
	}
	n, _ := size(log[len(log)-1:])
	if n > rate || n < rate/8 {
		t.Fatalf("the last second logged %d of %d", n, 5*rate)
	}
}

func TestRecorder_TheShareComesBackWhenItIsQuiet(t *testing.T) {
	t.Parallel()
	r := decisionlog.NewRecorder("gw_a", "boot", 100)
	for i := range 1000 {
		offer(r, decision(fmt.Sprintf("ten_%d", i), 1))
	}
	r.Cut(second(0))
	_, _, low := r.Totals()
	if low >= decisionlog.Whole/2 {
		t.Fatalf("the share is %d after ten times the rate", low)
	}
	for i := range 200 {
		r.Cut(second(i + 1))
	}
	if _, _, share := r.Totals(); share != decisionlog.Whole || !r.All() {
		t.Fatalf("the share is %d after minutes of silence, was %d", share, low)
	}
}

// TestRecorder_RefusalsAreKeptWhateverTheSample, up to a bound of their own, which
// counts what is beyond it and leaves the sample its room.
func TestRecorder_RefusalsAreKeptWhateverTheSample(t *testing.T) {
	t.Parallel()
	r := decisionlog.NewRecorder("gw_a", "boot", 100)
	for i := range 1000 {
		offer(r, decision(fmt.Sprintf("ten_%d", i), 1))
	}
	r.Cut(second(0))
	for i := range 150 {
		e := decision(fmt.Sprintf("ten_%d", i), int64(i))
		e.Allowed = false
		r.Add(e, true)
	}
	r.Add(decision("ten_sampled", 1), false)
	n, dropped := size(r.Cut(second(1)))
	if n != 101 || dropped != 50 {
		t.Fatalf("%d entries, %d dropped; want 101 and 50", n, dropped)
	}
	if logged, lost, _ := r.Totals(); lost != 50 || logged < 101 {
		t.Fatalf("totals are %d logged, %d lost", logged, lost)
	}
}

// TestRecorder_OneSubjectAloneCannotFillIt: at the smallest share what is beyond the
// rate is dropped, and counted.
func TestRecorder_OneSubjectAloneCannotFillIt(t *testing.T) {
	t.Parallel()
	hot := ""
	for i := 0; hot == ""; i++ {
		if name := fmt.Sprintf("ten_%d", i); decisionlog.Bucket(name) < 64 {
			hot = name
		}
	}
	r := decisionlog.NewRecorder("gw_a", "boot", 100)
	const asked = 10_000
	for s := range 3 {
		for i := range asked {
			offer(r, decision(hot, int64(i)))
		}
		n, dropped := size(r.Cut(second(s)))
		if n+int(dropped) != asked || n > 220 {
			t.Fatalf("second %d: %d logged and %d dropped of %d", s, n, dropped, asked)
		}
	}
}

func TestRecorder_BatchesStayWithinWhatTravels(t *testing.T) {
	t.Parallel()
	r := decisionlog.NewRecorder("gw_a", "boot", 20_000)
	long := noise(20_000, 150)
	for i := range long {
		r.Add(&long[i], false)
	}
	huge := noise(500, 8000)
	for i := range huge {
		r.Add(&huge[i], true)
	}
	r.Add(&decisionlog.Entry{Kind: decisionlog.KindDecision, Path: strings.Repeat("x", 9000)}, true)
	cut := r.Cut(second(1))
	n, dropped := size(cut)
	if n != 20_500 || dropped != 1 {
		t.Fatalf("%d entries, %d dropped", n, dropped)
	}
	for i := range cut {
		if _, err := decisionlog.Encode(&cut[i]); err != nil {
			t.Fatalf("batch %d of %d entries: %v", i, len(cut[i].Entries), err)
		}
	}
}

func TestRecorder_WhatWasLostStandsInTheNextBatch(t *testing.T) {
	t.Parallel()
	r := decisionlog.NewRecorder("gw_a", "boot", 100)
	offer(r, decision("ten_a", 1))
	r.Cut(second(1))
	r.Lost(1, 3)
	cut := r.Cut(second(2))
	if len(cut) != 1 || cut[0].Dropped != 4 || cut[0].From != second(2).UnixMicro() {
		t.Fatalf("next batch is %+v", cut)
	}
	if logged, lost, _ := r.Totals(); logged != 0 || lost != 1 {
		t.Fatalf("%d logged, %d lost", logged, lost)
	}
}

func TestRecorder_ARateOfZeroRecordsNothing(t *testing.T) {
	t.Parallel()
	r := decisionlog.NewRecorder("gw_a", "boot", 0)
	r.Add(decision("ten_a", 1), true)
	r.Add(decision("ten_a", 1), false)
	if n, _ := size(r.Cut(second(1))); n != 0 {
		t.Fatalf("%d entries", n)
	}
}

// TestRecorder_ConcurrentAddsAndCutsKeepEachOnce also proves freedom from races when
// run with the race detector.
func TestRecorder_ConcurrentAddsAndCutsKeepEachOnce(t *testing.T) {
	t.Parallel()
	r := decisionlog.NewRecorder("gw_a", "boot", 1_000_000)
	const workers, each = 8, 2000
	var adding sync.WaitGroup
	for w := range workers {
		adding.Go(func() {
			for i := range each {
				offer(r, decision(fmt.Sprintf("ten_%d", w), int64(i)))
			}
		})
	}
	seen := map[int64]bool{}
	take := func(cut []decisionlog.Batch) {
		for _, b := range cut {
			for i := range b.Entries {
				if seen[b.Entries[i].Seq] {
					t.Errorf("entry %d comes twice", b.Entries[i].Seq)
				}
				seen[b.Entries[i].Seq] = true
			}
		}
	}
	for i := range 50 {
		take(r.Cut(second(i)))
	}
	adding.Wait()
	take(r.Cut(second(60)))
	if len(seen) != workers*each {
		t.Fatalf("%d entries, want %d", len(seen), workers*each)
	}
}

// TestBucket_SpreadsSubjectsEvenly: a share of a half holds about half of the tenants,
// also where their names differ in few letters.
func TestBucket_SpreadsSubjectsEvenly(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for _, form := range []string{"ten_%d", "10.0.%d.1", "user:%08d", "%dx"} {
		for _, share := range []uint32{decisionlog.Whole / 2, decisionlog.Whole / 64} {
			in := 0
			for i := range n {
				b := decisionlog.Bucket(fmt.Sprintf(form, i))
				if b >= decisionlog.Whole {
					t.Fatalf("bucket %d", b)
				}
				if b < share {
					in++
				}
			}
			want := float64(n) * float64(share) / float64(decisionlog.Whole)
			if math.Abs(float64(in)-want) > 6*math.Sqrt(want) {
				t.Errorf("%s: %d of %d below a share of %d, want about %.0f", form, in, n, share, want)
			}
		}
	}
}

func BenchmarkRecorder_Add(b *testing.B) {
	r := decisionlog.NewRecorder("gw_a", "boot", math.MaxInt32)
	e := decision("ten_a", 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%4000 == 0 {
			r.Cut(t0)
		}
		offer(r, e)
	}
}

func BenchmarkRecorder_NotSampled(b *testing.B) {
	r := decisionlog.NewRecorder("gw_a", "boot", 2)
	for i := range 100_000 {
		offer(r, decision(fmt.Sprintf("ten_%d", i), 1))
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Sampled("ten_abcdefghijklmnop")
	}
}
