package spool_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/usage/spool"
)

// request is one that is under way.
type request struct {
	ticket *spool.Ticket
	entry  *spool.Entry
}

// schedule is a spool that things happen to, and what the ledger has to say in the end.
type schedule struct {
	t      *rapid.T
	o      spool.Options
	s      *spool.Spool
	opened []*spool.Spool
	boot   int
	now    int64
	books  *books
	want   sums
	under  []request
}

// kill leaves everything as it is, and opens the spool anew.
func (x *schedule) kill(*rapid.T) {
	for _, r := range x.under {
		x.want.add(r.entry, ledger.OutcomeInterrupted, 1)
	}
	x.under = nil
	x.boot++
	x.o.Boot = fmt.Sprintf("b%d", x.boot)
	s, err := spool.Open(x.o)
	if err != nil {
		x.t.Fatal(err)
	}
	x.s, x.opened = s, append(x.opened, s)
	if st := s.Standing(); st.Totals.Lost != 0 {
		x.t.Fatalf("%d records are called lost", st.Totals.Lost)
	}
}

func (x *schedule) draw() *spool.Entry {
	second := x.now + int64(rapid.IntRange(-1, 2).Draw(x.t, "second"))
	return entry(second, rapid.IntRange(0, 2).Draw(x.t, "tenant"), int64(rapid.IntRange(0, 9).Draw(x.t, "cost")))
}

// must fails on an error.
func (x *schedule) must(err error) {
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *schedule) begin(*rapid.T) {
	r := request{&spool.Ticket{}, x.draw()}
	x.must(x.s.Begin(r.ticket, r.entry))
	x.under = append(x.under, r)
}

func (x *schedule) end(*rapid.T) {
	if len(x.under) == 0 {
		return
	}
	i := rapid.IntRange(0, len(x.under)-1).Draw(x.t, "which")
	x.s.End(x.under[i].ticket, usage.OutcomeAdmitted)
	x.want.add(x.under[i].entry, usage.OutcomeAdmitted, 1)
	x.under = slices.Delete(x.under, i, i+1)
}

func (x *schedule) note(*rapid.T) {
	e := x.draw()
	x.must(x.s.Note(e, usage.OutcomeFallbackAdmitted))
	x.want.add(e, usage.OutcomeFallbackAdmitted, 1)
}

func (x *schedule) settle(*rapid.T) {
	e := x.draw()
	e.Cost -= 5
	x.must(x.s.Settle(e))
	x.want.add(e, ledger.OutcomeSettled, 0)
}

func (x *schedule) cut(*rapid.T) {
	x.now += int64(rapid.IntRange(-1, 2).Draw(x.t, "passed"))
	x.must(x.s.Cut(x.now))
}

// TestSpool_I08_AnyScheduleOfKillsLosesAndDoublesNothing tries random schedules: what was
// noted, cut, sent, sent again and forgotten, and kills in between. The ledger then has
// each outcome once, and as interrupted just the requests that were under way at a kill.
func TestSpool_I08_AnyScheduleOfKillsLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		o := spool.On(spool.Options{Dir: filepath.Join(base, fmt.Sprint(runs)), Replica: "gw_a"}, spool.RealDisk(), int64(rapid.IntRange(300, 3000).Draw(rt, "segment")))
		x := &schedule{t: rt, o: o, now: t0, books: newBooks(t), want: sums{}}
		defer func() {
			for _, s := range x.opened {
				_ = s.Close()
			}
		}()
		x.kill(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"begin": x.begin, "end": x.end, "note": x.note, "settle": x.settle, "cut": x.cut, "kill": x.kill,
			"finish":  func(*rapid.T) { x.must(x.s.Finish()) },
			"send":    func(*rapid.T) { x.books.collect(x.s, false) },
			"collect": func(*rapid.T) { x.books.collect(x.s, true) },
		})
		x.kill(rt)
		x.books.collect(x.s, true)
		x.books.want(x.want)
		if st := x.s.Standing(); st.Waiting != 0 {
			rt.Fatalf("%d events still wait", st.Waiting)
		}
	})
}

// copyDir copies a spool as a power cut leaves it: its newest files end early.
func copyDir(t testing.TB, from, to string, lost map[string]int) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"raw", "cut"} {
		paths := files(t, from, name)
		for i, path := range paths {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if i == len(paths)-1 {
				raw = raw[:max(0, len(raw)-lost[name])]
			}
			if err := os.WriteFile(filepath.Join(to, filepath.Base(path)), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSpool_ATornEndLosesOnlyTheEnd cuts the files off at every byte: nothing is told
// twice, and nothing that no longer is there.
func TestSpool_ATornEndLosesOnlyTheEnd(t *testing.T) {
	t.Parallel()
	dir, base := t.TempDir(), t.TempDir()
	s := open(t, spool.Options{Dir: dir, Boot: "b1"})
	whole := sums{}
	for i := range 4 {
		e := entry(t0+int64(i), i, 3)
		var ticket spool.Ticket
		if err := s.Begin(&ticket, e); err != nil {
			t.Fatal(err)
		}
		s.End(&ticket, usage.OutcomeAdmitted)
		whole.add(e, usage.OutcomeAdmitted, 1)
		if i == 1 {
			if err := s.Cut(t0 + 10); err != nil {
				t.Fatal(err)
			}
		}
	}
	size := func(name string) int {
		info, err := os.Stat(files(t, dir, name)[0])
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Size())
	}
	for name, total := range map[string]int{"raw": size("raw"), "cut": size("cut")} {
		for lost := range total {
			to := filepath.Join(base, fmt.Sprint(name, lost))
			copyDir(t, dir, to, map[string]int{name: lost})
			again, err := spool.Open(spool.Options{Dir: to, Replica: "gw_a", Boot: "b2"})
			if err != nil {
				t.Fatalf("%s less %d bytes: %v", name, lost, err)
			}
			b := newBooks(t)
			for _, w := range again.Waiting() {
				body, err := again.Body(w)
				if err != nil {
					t.Fatal(err)
				}
				batch, err := ledger.Decode(body)
				if err != nil {
					t.Fatal(err)
				}
				b.take(batch)
			}
			for _, of := range b.events {
				for _, e := range of {
					k := counted{e.Second, e.Tenant, e.KID, e.Route, usage.OutcomeAdmitted}
					if e.Requests != 1 || whole[k][0] != 1 || e.Outcome != usage.OutcomeAdmitted && e.Outcome != ledger.OutcomeInterrupted {
						t.Fatalf("%s less %d bytes tells %+v", name, lost, e)
					}
				}
			}
			_ = again.Close()
		}
	}
}

// TestSpool_WhatIsBrokenInTheMiddleIsCountedExactly breaks one record after the other.
func TestSpool_WhatIsBrokenInTheMiddleIsCountedExactly(t *testing.T) {
	t.Parallel()
	dir, base := t.TempDir(), t.TempDir()
	s := open(t, spool.Options{Dir: dir, Boot: "b1"})
	const notes = 20
	for i := range notes {
		if err := s.Note(entry(t0, i, 1), usage.OutcomeAdmitted); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range notes - 1 { // behind the last one nothing tells that it was there
		to := filepath.Join(base, fmt.Sprint(i))
		copyDir(t, dir, to, nil)
		path := files(t, to, "raw")[0]
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(raw, fmt.Appendf(nil, "ten_%d\x0c", i)) // its length follows: that of a kid
		if at < 0 {
			t.Fatalf("note %d is not there", i)
		}
		raw[at] ^= 0x40
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		again := open(t, spool.Options{Dir: to, Boot: "b2"})
		b := newBooks(t)
		b.collect(again, false)
		if st := again.Standing(); st.Totals.Lost != 1 || len(b.sums()) != notes-1 {
			t.Fatalf("without note %d: %d lost, %d told", i, st.Totals.Lost, len(b.sums()))
		}
	}
}

// TestSpool_EventsThatAreBrokenLeaveAGapInTheirNumbers: what was cut is not cut again,
// for the ledger may have it.
func TestSpool_EventsThatAreBrokenLeaveAGapInTheirNumbers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, spool.Options{Dir: dir, Boot: "b1"})
	for i := range 3 {
		if err := s.Note(entry(t0+int64(i), i, 1), usage.OutcomeAdmitted); err != nil {
			t.Fatal(err)
		}
		if err := s.Cut(t0 + int64(i) + 2); err != nil {
			t.Fatal(err)
		}
	}
	w := s.Waiting()
	path := files(t, dir, "cut")[0]
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	body, err := s.Body(w[1])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(raw, body)
	raw[at+len(body)/2] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Body(w[1]); err == nil {
		t.Fatal("events that have changed on the disk are read")
	}
	again := open(t, spool.Options{Dir: dir, Boot: "b2"})
	var told []int64
	for _, w := range again.Waiting() {
		for n := w.First; n <= w.Last; n++ {
			told = append(told, n)
		}
	}
	if fmt.Sprint(told) != "[1 3]" {
		t.Fatalf("numbers %v are told, want 1 and 3", told)
	}
}

func TestSpool_ANewerBuildsSpoolIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	head := spool.AppendFrame(nil, 1, []byte{'H', 9, 1, 'b', 2})
	path := filepath.Join(dir, fmt.Sprintf("raw-%016x.log", 1))
	if err := os.WriteFile(path, head, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := spool.Open(spool.Options{Dir: dir, Replica: "gw_a", Boot: "b2"})
	if !errors.Is(err, spool.ErrNewer) {
		t.Fatalf("error is %v", err)
	}
	if raw, err := os.ReadFile(path); err != nil || !bytes.Equal(raw, head) {
		t.Fatalf("the file is changed: %v", err)
	}
}

// FuzzOpen opens whatever lies there: it must not panic, and keep what it notes itself.
func FuzzOpen(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add(spool.AppendFrame(nil, 1, []byte{'H', 1, 1, 'b', 2}), spool.AppendFrame(nil, 1, []byte{'C', 2, 19}))
	f.Add(spool.AppendFrame(nil, 3, []byte{'N', 1, 'x', 2, 2, 0, 0, 0}), spool.AppendFrame(nil, 9, []byte{'M', 1, 'b', 8}))
	f.Fuzz(func(t *testing.T, raw, cut []byte) {
		dir := t.TempDir()
		for name, content := range map[string][]byte{"raw": raw, "cut": cut} {
			// As bytes on the disk, and as the payload of a frame that is in order.
			framed := content
			if len(content) > 0 {
				framed = append(bytes.Clone(content), spool.AppendFrame(nil, 20, content)...)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%016x.log", name, 1)), framed, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := spool.Open(spool.Options{Dir: dir, Replica: "gw_a", Boot: "b2"})
		if err != nil {
			return
		}
		defer func() { _ = s.Close() }()
		if err := s.Note(entry(t0, 1, 1), usage.OutcomeAdmitted); err != nil {
			t.Fatal(err)
		}
		if err := s.Finish(); err != nil && !errors.Is(err, ledger.ErrBatch) {
			t.Fatal(err)
		}
	})
}

func FuzzScan(f *testing.F) {
	f.Add(spool.AppendFrame(spool.AppendFrame(nil, 1, []byte("Nabc")), 2, []byte("x")))
	f.Fuzz(func(t *testing.T, b []byte) {
		frames, skipped, tail := spool.Scan(b)
		if frames*16+skipped+tail > len(b) {
			t.Fatalf("%d frames, %d and %d bytes in %d", frames, skipped, tail, len(b))
		}
	})
}
