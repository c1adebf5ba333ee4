package console_test

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage/ledger"
)

// weighed counts the lines of what is written, and the most memory that was in use.
type weighed struct {
	lines int64
	most  uint64
	next  int64
}

func (w *weighed) Write(p []byte) (int, error) {
	w.lines += int64(bytes.Count(p, []byte("\n")))
	if w.lines >= w.next {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.most, w.next = max(w.most, m.HeapAlloc), w.lines+10_000
	}
	return len(p), nil
}

// TestUsageFiles_A08_ALongFileIsNotKeptInMemory: every event is in the file, and writing
// it takes no more memory for a million (HEADGATE_FAULTS=long) than for some ten thousand.
// It is not parallel: memory is the whole process'.
func TestUsageFiles_A08_ALongFileIsNotKeptInMemory(t *testing.T) { //nolint:paralleltest // it measures memory
	batches := 8
	if os.Getenv("HEADGATE_FAULTS") == "long" {
		batches = 250
	}
	w := newLedgerWorld(t)
	w.benchBatches(t, batches)
	w.collect(t)
	w.wire.bodies = nil
	events := int64(batches * ledger.MaxEvents)
	for _, format := range []console.UsageFormat{console.UsageCSV, console.UsageJSONLines, console.UsageCloudEvents} {
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		var out weighed
		if err := w.ledger.WriteEvents(w.ctx, owner, &out, console.UsageEventQuery{}, format); err != nil {
			t.Fatal(err)
		}
		head := int64(0)
		if format == console.UsageCSV {
			head = 1
		}
		if out.lines-head != events {
			t.Errorf("%s has %d events, want %d", format, out.lines-head, events)
		}
		if grown := int64(out.most) - int64(before.HeapAlloc); grown > 32<<20 { //nolint:gosec // far from the bounds
			t.Errorf("%s: the heap grew by %d bytes", format, grown)
		} else {
			t.Logf("%s: %d events, %d bytes more", format, events, grown)
		}
	}
}

// TestUsageFiles_A08_TheThreeFormatsSayTheSame: each row of the ledger, with the same sums
// in each file as in the table; numbers are numbers.
func TestUsageFiles_A08_TheThreeFormatsSayTheSame(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	w.benchBatches(t, 1)
	w.collect(t)
	wantRequests, wantCost := w.query(t, `SELECT sum(requests) FROM usage_events`), w.query(t, `SELECT sum(cost) FROM usage_events`)
	for _, format := range []console.UsageFormat{console.UsageCSV, console.UsageJSONLines, console.UsageCloudEvents} {
		var b bytes.Buffer
		if err := w.ledger.WriteEvents(w.ctx, owner, &b, console.UsageEventQuery{}, format); err != nil {
			t.Fatal(err)
		}
		ids := map[string]bool{}
		var requests, cost int64
		eachEvent(t, &b, format, func(id string, r, c int64) {
			if ids[id] {
				t.Fatalf("%s has %s twice", format, id)
			}
			ids[id] = true
			requests, cost = requests+r, cost+c
		})
		if len(ids) != ledger.MaxEvents || requests != wantRequests || cost != wantCost {
			t.Errorf("%s: %d events, %d requests of cost %d; the ledger has %d and %d", format, len(ids), requests, cost, wantRequests, wantCost)
		}
	}
}

// eachEvent reads a file of events back with what others read such files with.
func eachEvent(t *testing.T, r io.Reader, format console.UsageFormat, each func(id string, requests, cost int64)) {
	t.Helper()
	if format == console.UsageCSV {
		rows, err := csv.NewReader(r).ReadAll()
		if err != nil || strings.Join(rows[0], " ") != "id at tenant kid route outcome requests cost billable" {
			t.Fatalf("%v %v", err, rows[0])
		}
		for _, row := range rows[1:] {
			requests, err1 := strconv.ParseInt(row[6], 10, 64)
			cost, err2 := strconv.ParseInt(row[7], 10, 64)
			if err1 != nil || err2 != nil {
				t.Fatalf("%q", row)
			}
			each(row[0], requests, cost)
		}
		return
	}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var e struct {
			ID, Source     string
			Requests, Cost int64
			Data           struct{ Requests, Cost int64 }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%q: %v", lines.Bytes(), err)
		}
		each(e.Source+" "+e.ID, e.Requests+e.Data.Requests, e.Cost+e.Data.Cost)
	}
}

// TestUsageFiles_A08_NoNameRunsAsAFormula: tenants are called by whatever they were called.
func TestUsageFiles_A08_NoNameRunsAsAFormula(t *testing.T) {
	t.Parallel()
	w := newLedgerWorld(t)
	names := []string{`=HYPERLINK("http://192.0.2.1")`, "+1+1", "-2+3", "@SUM(A1)", "＝1+1"}
	b := ledger.Batch{Replica: "gw-1", Boot: "b1", First: 1}
	for i, name := range names {
		id := w.tenant(t, name).ID
		b.Events = append(b.Events, w.admitted(w.clock.now().Unix()-60, id, int64(i+1)))
	}
	w.wire.send(t, b)
	w.collect(t)
	w.roll(t)
	now := w.clock.now()
	span := console.UsageSpan{From: now.Add(-time.Hour), To: now, Zone: time.UTC}
	var file bytes.Buffer
	q := console.UsageQuery{From: span.From, To: span.To, Group: console.GroupTenant}
	if err := w.ledger.WriteReport(w.ctx, owner, &file, q, span, console.UsageCSV); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, row := range rows[1:] {
		if row[6] == "" {
			continue
		}
		seen++
		if !strings.HasPrefix(row[6], "'") {
			t.Errorf("%q runs", row[6])
		}
	}
	if seen < len(names) {
		t.Errorf("%d names in %q", seen, rows)
	}
}
