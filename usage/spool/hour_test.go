package spool_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/spool"
)

// TestSpool_U07_AnHourWithoutTheLedgerFitsIntoTheDefaultLimit: 500 different events a second,
// of two requests each, for an hour (a tenth of it unless HEADGATE_FAULTS is long), with
// nobody who takes them. Then the ledger is back, and has all of them in order, and the disk
// its room.
func TestSpool_U07_AnHourWithoutTheLedgerFitsIntoTheDefaultLimit(t *testing.T) {
	t.Parallel()
	seconds := int64(360)
	if os.Getenv("HEADGATE_FAULTS") == "long" {
		seconds = 3600
	}
	const perSecond = 500
	s := open(t, spool.Options{Dir: t.TempDir(), Boot: "b1"})
	entries := make([]*spool.Entry, perSecond)
	for i := range entries {
		entries[i] = entry(t0, i, 2)
		entries[i].KID, entries[i].Route = fmt.Sprintf("kid%05d", i), "hour"
	}
	most := int64(0)
	for second := t0; second < t0+seconds; second++ {
		for _, e := range entries {
			e.Second = second
			for range 2 {
				var ticket spool.Ticket
				if err := s.Begin(&ticket, e); err != nil {
					t.Fatalf("after %d seconds: %v, %+v", second-t0, err, s.Standing())
				}
				s.End(&ticket, usage.OutcomeAdmitted)
			}
		}
		if err := s.Cut(second); err != nil {
			t.Fatal(err)
		}
		most = max(most, s.Standing().Bytes)
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	if hour := most * 3600 / seconds; hour > spool.DefaultLimit {
		t.Errorf("an hour takes %d bytes of %d", hour, spool.DefaultLimit)
	}
	b := newBooks(t)
	b.collect(s, true)
	var requests, cost int64
	for _, v := range b.sums() {
		requests, cost = requests+v[0], cost+v[1]
	}
	if want := seconds * perSecond * 2; requests != want || cost != 2*want {
		t.Errorf("the ledger has %d requests of cost %d, want %d of %d", requests, cost, want, 2*want)
	}
	// What is left are the segments that are being written, one of each journal.
	if left := s.Standing(); len(s.Waiting()) > 0 || left.Bytes > 8<<20 {
		t.Errorf("all is committed, and %+v is left of %d bytes", left, most)
	}
	t.Logf("%d s: at most %d bytes on the disk", seconds, most)
}
