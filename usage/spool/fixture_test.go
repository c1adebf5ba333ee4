package spool_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/usage/spool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const t0 = int64(1_790_000_000)

// counted is what a ledger adds up.
type counted struct {
	second             int64
	tenant, kid, route string
	outcome            usage.Outcome
}

type sums map[counted][2]int64 // requests, cost

func (s sums) add(e *spool.Entry, outcome usage.Outcome, requests int64) {
	k := counted{e.Second, e.Tenant, e.KID, e.Route, outcome}
	s[k] = [2]int64{s[k][0] + requests, s[k][1] + e.Cost}
}

// plain is s without what adds up to nothing.
func (s sums) plain() sums {
	out := maps.Clone(s)
	maps.DeleteFunc(out, func(_ counted, v [2]int64) bool { return v == [2]int64{} })
	return out
}

// books take each event once, as the ledger does, and notice what must not be.
type books struct {
	t      testing.TB
	events map[string]map[int64]ledger.Event // by boot and number
	final  map[string]bool
}

func newBooks(t testing.TB) *books {
	return &books{t: t, events: map[string]map[int64]ledger.Event{}, final: map[string]bool{}}
}

// take books a batch, which may have come before.
func (b *books) take(batch *ledger.Batch) {
	b.t.Helper()
	of := b.events[batch.Boot]
	if of == nil {
		of = map[int64]ledger.Event{}
		b.events[batch.Boot] = of
	}
	for i, e := range batch.Events {
		n := batch.First + int64(i)
		if was, there := of[n]; there && was != e {
			b.t.Fatalf("event %s %d was %+v and is %+v", batch.Boot, n, was, e)
		}
		of[n] = e
	}
	b.final[batch.Boot] = b.final[batch.Boot] || batch.Final
}

// collect books all that waits, and says so to the spool when commit is set.
func (b *books) collect(s *spool.Spool, commit bool) {
	b.t.Helper()
	for _, w := range s.Waiting() {
		body, err := s.Body(w)
		if errors.Is(err, spool.ErrForgotten) { // with one before it
			continue
		}
		if err != nil {
			b.t.Fatal(err)
		}
		batch, err := ledger.Decode(body)
		if err != nil {
			b.t.Fatal(err)
		}
		if batch.Boot != w.Boot || batch.First != w.First || batch.Last() != w.Last || batch.Replica != "gw_a" {
			b.t.Fatalf("batch %s %d to %d waits as %+v", batch.Boot, batch.First, batch.Last(), w)
		}
		b.take(batch)
		s.Sent(w)
		if commit {
			s.Committed(w.Boot, w.Last)
		}
	}
}

// sums adds up, and fails on a gap.
func (b *books) sums() sums {
	b.t.Helper()
	out := sums{}
	for boot, of := range b.events {
		for n := range int64(len(of)) {
			e, there := of[n+1]
			if !there {
				b.t.Fatalf("boot %s has %d events, and none with number %d", boot, len(of), n+1)
			}
			k := counted{e.Second, e.Tenant, e.KID, e.Route, e.Outcome}
			out[k] = [2]int64{out[k][0] + e.Requests, out[k][1] + e.Cost}
		}
	}
	return out
}

func (b *books) want(want sums) {
	b.t.Helper()
	if got, want := b.sums().plain(), want.plain(); !maps.Equal(got, want) {
		b.t.Fatalf("the ledger has\n%v\nwant\n%v", got, want)
	}
}

func open(t testing.TB, o spool.Options) *spool.Spool {
	t.Helper()
	o.Replica = "gw_a"
	s, err := spool.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func files(t testing.TB, dir, name string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, name+"-*.log"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func entry(second int64, tenant int, cost int64) *spool.Entry {
	return &spool.Entry{Second: second, Tenant: fmt.Sprintf("ten_%d", tenant), KID: "0123456789AB", Route: "report", Cost: cost}
}

var errDisk = errors.New("no space left on device")

// badDisk fails when it is told to.
type badDisk struct {
	spool.Disk
	mu      sync.Mutex
	creates bool // fail
	writes  bool
	syncs   bool
	short   bool // writes that fail leave half of it behind, and cannot be cut off
}

func (d *badDisk) set(do func(*badDisk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do(d)
}

func (d *badDisk) is(which func(*badDisk) bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return which(d)
}

func (d *badDisk) Create(path string) (spool.File, error) {
	if d.is(func(d *badDisk) bool { return d.creates }) {
		return nil, errDisk
	}
	f, err := d.Disk.Create(path)
	return &badFile{f, d}, err
}

type badFile struct {
	spool.File
	d *badDisk
}

func (f *badFile) WriteAt(p []byte, off int64) (int, error) {
	if f.d.is(func(d *badDisk) bool { return d.writes }) {
		if f.d.is(func(d *badDisk) bool { return d.short }) {
			_, _ = f.File.WriteAt(p[:len(p)/2], off)
		}
		return 0, errDisk
	}
	return f.File.WriteAt(p, off)
}

func (f *badFile) Truncate(size int64) error {
	if f.d.is(func(d *badDisk) bool { return d.writes && d.short }) {
		return errDisk
	}
	return f.File.Truncate(size)
}

func (f *badFile) Sync() error {
	if f.d.is(func(d *badDisk) bool { return d.syncs }) {
		return errDisk
	}
	return f.File.Sync()
}
