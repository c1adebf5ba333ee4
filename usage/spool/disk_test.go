package spool_test

import (
	"errors"
	"os"
	"testing"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/usage/spool"
)

func newBadDisk() *badDisk { return &badDisk{Disk: spool.RealDisk()} }

// TestSpool_P04_ADiskThatIsFullIsFullAndThenIsNot: with space again, the next cut takes
// it into use; what was refused meanwhile is in no event, and nothing else is lost.
func TestSpool_P04_ADiskThatIsFullIsFullAndThenIsNot(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*badDisk, bool){
		"no space for a write":             func(d *badDisk, on bool) { d.writes = on },
		"half of a write stays behind":     func(d *badDisk, on bool) { d.writes, d.short = on, on },
		"no new file":                      func(d *badDisk, on bool) { d.creates = on },
		"no space, and no new file either": func(d *badDisk, on bool) { d.writes, d.creates = on, on },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, d := t.TempDir(), newBadDisk()
			o := spool.On(spool.Options{Dir: dir, Boot: "b1"}, d, 200)
			s := open(t, o)
			b, want, second := newBooks(t), sums{}, t0
			note := func() error {
				e := entry(second, 1, 2)
				err := s.Note(e, usage.OutcomeAdmitted)
				if err == nil {
					want.add(e, usage.OutcomeAdmitted, 1)
				}
				return err
			}
			for range 6 {
				if err := note(); err != nil {
					t.Fatal(err)
				}
			}
			var under spool.Ticket
			if err := s.Begin(&under, entry(t0, 2, 3)); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				d.set(func(d *badDisk) { fail(d, true) })
				var err error
				for range 10 { // a file that is begun may have room
					if err = note(); err != nil {
						break
					}
				}
				if !errors.Is(err, spool.ErrFull) || !s.Full() {
					t.Fatalf("the disk fails, and a note gets %v", err)
				}
				if err := s.Begin(&spool.Ticket{}, entry(t0, 1, 1)); !errors.Is(err, spool.ErrFull) {
					t.Fatalf("the disk fails, and an intent gets %v", err)
				}
				_ = s.Cut(second + 5) // fails, or has nothing to do
				d.set(func(d *badDisk) { fail(d, false) })
				second += 10
				if err := s.Cut(second); err != nil || s.Full() {
					t.Fatalf("the disk works again: %v", err)
				}
				for range 6 {
					if err := note(); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.End(&under, usage.OutcomeAdmitted)
			want.add(entry(t0, 2, 3), usage.OutcomeAdmitted, 1)
			if st := s.Standing(); st.Totals.Failures == 0 {
				t.Error("nothing failed")
			}
			again := open(t, spool.On(spool.Options{Dir: dir, Boot: "b2"}, spool.RealDisk(), 200))
			b.collect(again, true)
			b.want(want)
			if st := again.Standing(); st.Totals.Lost != 0 {
				t.Errorf("%d records are called lost", st.Totals.Lost)
			}
		})
	}
}

// TestSpool_AnOutcomeThatTheDiskRefusesIsCutLater: the request was noted, so it counts.
func TestSpool_AnOutcomeThatTheDiskRefusesIsCutLater(t *testing.T) {
	t.Parallel()
	d := newBadDisk()
	s := open(t, spool.On(spool.Options{Dir: t.TempDir(), Boot: "b1"}, d, 1<<20))
	var ticket spool.Ticket
	if err := s.Begin(&ticket, entry(t0, 1, 3)); err != nil {
		t.Fatal(err)
	}
	d.set(func(d *badDisk) { d.writes = true })
	s.End(&ticket, usage.OutcomeAdmitted)
	if err := s.Cut(t0 + 5); err == nil {
		t.Fatal("a cut that is not on the disk is none")
	}
	d.set(func(d *badDisk) { d.writes = false })
	if err := s.Cut(t0 + 5); err != nil {
		t.Fatal(err)
	}
	b, want := newBooks(t), sums{}
	want.add(entry(t0, 1, 3), usage.OutcomeAdmitted, 1)
	b.collect(s, true)
	b.want(want)
}

// TestSpool_ASyncThatFailsStopsNotes until it works again; what is written stays true.
func TestSpool_ASyncThatFailsStopsNotes(t *testing.T) {
	t.Parallel()
	d := newBadDisk()
	s := open(t, spool.On(spool.Options{Dir: t.TempDir(), Boot: "b1"}, d, 1<<20))
	e := entry(t0, 1, 3)
	if err := s.Note(e, usage.OutcomeAdmitted); err != nil {
		t.Fatal(err)
	}
	d.set(func(d *badDisk) { d.syncs = true })
	if err := s.Cut(t0 + 5); err == nil || !s.Full() {
		t.Fatalf("a disk that does not sync is as good as any: %v", err)
	}
	d.set(func(d *badDisk) { d.syncs = false })
	if err := s.Cut(t0 + 6); err != nil || s.Full() {
		t.Fatal(err)
	}
	b, want := newBooks(t), sums{}
	want.add(e, usage.OutcomeAdmitted, 1)
	b.collect(s, true)
	b.want(want)
}

// TestOpen_AFullDiskKeepsNoGatewayFromItsWork: what an earlier boot left is cut when
// there is space again.
func TestOpen_AFullDiskKeepsNoGatewayFromItsWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, spool.Options{Dir: dir, Boot: "b1"})
	e := entry(t0, 1, 3)
	if err := s.Note(e, usage.OutcomeAdmitted); err != nil {
		t.Fatal(err)
	}
	d := newBadDisk()
	d.set(func(d *badDisk) { d.writes, d.creates = true, true })
	again := open(t, spool.On(spool.Options{Dir: dir, Boot: "b2"}, d, 1<<20))
	if !again.Full() || len(again.Waiting()) != 0 {
		t.Fatal("the disk is full, and nobody says so")
	}
	d.set(func(d *badDisk) { d.writes, d.creates = false, false })
	if err := again.Cut(t0 + 5); err != nil {
		t.Fatal(err)
	}
	b, want := newBooks(t), sums{}
	want.add(e, usage.OutcomeAdmitted, 1)
	if err := again.Note(e, usage.OutcomeAdmitted); err != nil {
		t.Fatal(err)
	}
	want.add(e, usage.OutcomeAdmitted, 1)
	if err := again.Finish(); err != nil {
		t.Fatal(err)
	}
	b.collect(again, true)
	b.want(want)
}

// TestSpool_U07_TakesNoMoreThanItsLimit fills a spool whose events nobody takes, and then
// takes them: there is room again.
func TestSpool_U07_TakesNoMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := spool.On(spool.Options{Dir: dir, Boot: "b1", Limit: 64 << 10}, spool.RealDisk(), 8<<10)
	s := open(t, o)
	b, want := newBooks(t), sums{}
	for second := t0; ; second++ {
		var err error
		for i := range 40 {
			e := entry(second, i, 1)
			if err = s.Note(e, usage.OutcomeAdmitted); err != nil {
				break
			}
			want.add(e, usage.OutcomeAdmitted, 1)
		}
		if cut := s.Cut(second); cut != nil {
			t.Fatal(cut)
		}
		if errors.Is(err, spool.ErrFull) && s.Full() {
			break
		}
		if second > t0+10_000 {
			t.Fatal("it is never full")
		}
	}
	// Refusals go on, and do not make it grow without end.
	for second := t0 + 20_000; second < t0+21_000; second++ {
		for i := range 40 {
			s.Count(entry(second, i, 0), usage.OutcomeLimited)
		}
		if err := s.Cut(second); err != nil {
			t.Fatal(err)
		}
	}
	var size int64
	for _, path := range append(files(t, dir, "raw"), files(t, dir, "cut")...) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	st := s.Standing()
	if most := st.Limit + st.Limit/8 + 16<<10; size > most || st.Bytes != size || st.Totals.Uncounted == 0 {
		t.Fatalf("%d bytes on the disk of at most %d; it says %+v", size, most, st)
	}
	b.collect(s, true)
	got := b.sums()
	for k := range got {
		if k.outcome == usage.OutcomeLimited {
			delete(got, k)
		}
	}
	for k, v := range want.plain() {
		if got[k] != v {
			t.Fatalf("%+v is %v, want %v", k, got[k], v)
		}
	}
	if err := s.Cut(t0 + 30_000); err != nil || s.Full() {
		t.Fatalf("all is committed, and it is full: %+v", s.Standing())
	}
	if err := s.Note(entry(t0+30_000, 1, 1), usage.OutcomeAdmitted); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkSpool is what a request costs: an intent and an outcome, or a note.
func BenchmarkSpool(b *testing.B) {
	for name, workers := range map[string]int{"one": 1, "16": 16} {
		b.Run("request/"+name, func(b *testing.B) {
			s := open(b, spool.Options{Dir: b.TempDir(), Boot: "b1", Limit: 8 << 30})
			b.SetParallelism(workers)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				e := entry(t0, 1, 1)
				var ticket spool.Ticket
				for pb.Next() {
					if err := s.Begin(&ticket, e); err != nil {
						b.Fatal(err)
					}
					s.End(&ticket, usage.OutcomeAdmitted)
				}
			})
			b.ReportMetric(float64(s.Standing().Bytes)/float64(b.N), "disk-B/op")
		})
		b.Run("note/"+name, func(b *testing.B) {
			s := open(b, spool.Options{Dir: b.TempDir(), Boot: "b1", Limit: 8 << 30})
			b.SetParallelism(workers)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				e := entry(t0, 1, 1)
				for pb.Next() {
					if err := s.Note(e, usage.OutcomeAdmitted); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
	b.Run("cut", func(b *testing.B) {
		s := open(b, spool.Options{Dir: b.TempDir(), Boot: "b1", Limit: 8 << 30})
		for n := range b.N {
			b.StopTimer()
			for i := range ledger.MaxEvents {
				s.Count(entry(t0+int64(n), i, 0), usage.OutcomeLimited)
			}
			b.StartTimer()
			if err := s.Cut(t0 + int64(n) + 5); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(s.Standing().Bytes)/float64(b.N*ledger.MaxEvents), "disk-B/event")
	})
}
