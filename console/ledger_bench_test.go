package console_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
)

// benchBatches are batches of a busy fleet: 4 replicas, tenants tenants, 8 routes; each
// second has one event of each that was used.
func (w *ledgerWorld) benchBatches(b testing.TB, batches int) {
	b.Helper()
	now := w.clock.now().Unix()
	w.exec(b, `INSERT INTO tenants (id, name, plan, time_zone, state, seq, created_at, updated_at)
		SELECT 'ten_' || translate(lpad(i::text, 16, 'z'), '0189', 'abcd'), 'n' || i, 'free', 'UTC', 'active', 1, now(), now() FROM generate_series(1, 1000) i`)
	rows, err := w.conn.Query(w.ctx, `SELECT id FROM tenants ORDER BY id`)
	if err != nil {
		b.Fatal(err)
	}
	tenants, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	for i := range batches {
		x := ledger.Batch{Replica: fmt.Sprintf("gw-%d", i%4), Boot: "b", First: 1 + int64(i/4)*ledger.MaxEvents, Events: make([]ledger.Event, ledger.MaxEvents)}
		for j := range x.Events {
			n := i*ledger.MaxEvents + j
			x.Events[j] = ledger.Event{
				Second: now - int64((batches-i)/4), Tenant: tenants[(n*7919)%len(tenants)], KID: fmt.Sprintf("key%09d", (n*7919)%len(tenants)), Route: fmt.Sprintf("route-%d", n%8),
				Outcome: usage.OutcomeAdmitted, Requests: int64(1 + n%9), Cost: int64(n % 90),
			}
		}
		slices.SortStableFunc(x.Events, func(a, b ledger.Event) int { return int(a.Second - b.Second) })
		w.wire.send(b, x)
	}
}

// BenchmarkLedger_T13_Ingest takes in a million events, with the check that none is there
// yet and with sums, and compares that with COPY of the same rows into the same table.
// Then it reads all of them once more, which must change nothing (U10).
func BenchmarkLedger_T13_Ingest(b *testing.B) {
	const batches = 250
	for b.Loop() {
		w := newLedgerWorld(b)
		if err := w.ledger.Upkeep(w.ctx); err != nil {
			b.Fatal(err)
		}
		w.benchBatches(b, batches)
		events := float64(batches * ledger.MaxEvents)
		begin := time.Now()
		w.collect(b)
		ingest := time.Since(begin)
		begin = time.Now()
		w.roll(b)
		roll := time.Since(begin)
		begin = time.Now()
		if err := w.another().Collect(w.ctx); err != nil {
			b.Fatal(err)
		}
		replay := time.Since(begin)
		w.exec(b, `UPDATE usage_marks SET seq = 0`)
		begin = time.Now()
		if err := w.another().Collect(w.ctx); err != nil {
			b.Fatal(err)
		}
		compared := time.Since(begin)
		if n := w.query(b, `SELECT count(*) FROM usage_events`); n != batches*ledger.MaxEvents {
			b.Fatalf("%d events, want %d", n, batches*ledger.MaxEvents)
		}
		raw := w.rawCopy(b)
		b.ReportMetric(events/ingest.Seconds(), "events/s")
		b.ReportMetric(events/(ingest+roll).Seconds(), "events+sums/s")
		b.ReportMetric(events/raw.Seconds(), "raw-COPY/s")
		b.ReportMetric(raw.Seconds()/ingest.Seconds(), "of-raw-COPY")
		b.ReportMetric(replay.Seconds(), "s/replay")
		b.ReportMetric(compared.Seconds(), "s/replay-without-marks")
	}
}

// rawCopy is how long COPY takes for the same rows into an empty table of the same form.
func (w *ledgerWorld) rawCopy(b *testing.B) time.Duration {
	b.Helper()
	rows, err := w.conn.Query(w.ctx, `SELECT occurred_at, ingest, seq, requests, cost, run, tenant_id, kid, route, outcome FROM usage_events ORDER BY ingest, run, seq`)
	if err != nil {
		b.Fatal(err)
	}
	values, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) ([]any, error) { return r.Values() })
	if err != nil {
		b.Fatal(err)
	}
	for _, sql := range []string{
		`ALTER TABLE usage_events RENAME TO taken`, `CREATE TABLE usage_raw (LIKE taken INCLUDING ALL) PARTITION BY RANGE (occurred_at)`, `CREATE TABLE usage_raw_all PARTITION OF usage_raw DEFAULT`,
		`CREATE TRIGGER kept BEFORE UPDATE OR DELETE ON usage_raw FOR EACH ROW EXECUTE FUNCTION refuse_change()`, `CHECKPOINT`,
	} {
		w.exec(b, sql)
	}
	columns := []string{"occurred_at", "ingest", "seq", "requests", "cost", "run", "tenant_id", "kid", "route", "outcome"}
	begin := time.Now()
	for part := range slices.Chunk(values, 8192) {
		if _, err := w.conn.CopyFrom(w.ctx, pgx.Identifier{"usage_raw"}, columns, pgx.CopyFromRows(part)); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(begin)
}

// BenchmarkLedger_T13_Lag feeds 10 000 events a second for a while, as replicas do, and
// tells how long after its second an event is in the ledger.
func BenchmarkLedger_T13_Lag(b *testing.B) {
	const perSecond, seconds = 10_000, 20
	for b.Loop() {
		w := newLedgerWorld(b)
		d := w.deps
		d.Feed, d.Store, d.Now = w.wire, w.db, time.Now
		w.feed.set(func() { w.feed.now = time.Now() })
		w.ledger = console.NewLedger(d, console.UsageRetention{})
		go func() { _ = w.ledger.Run(b.Context()) }()
		first := map[string]int64{}
		lags := make([]time.Duration, 0, seconds*4)
		for range seconds {
			sent := time.Now()
			for r := range 4 {
				name := fmt.Sprintf("gw-%d", r)
				x := ledger.Batch{Replica: name, Boot: "b", First: 1 + first[name], Events: make([]ledger.Event, perSecond/4)}
				for i := range x.Events {
					x.Events[i] = w.admitted(sent.Unix(), w.tenants[i%3], 1)
					x.Events[i].KID = fmt.Sprintf("key%09d", i%700)
				}
				first[name] += int64(len(x.Events))
				w.wire.send(b, x)
			}
			for r := 0; r < 4; {
				if name := fmt.Sprintf("gw-%d", r); w.wire.mark(name, "b") >= first[name] {
					lags = append(lags, time.Since(sent)+time.Second) // an event waits a second at most to be cut
					r++
				} else {
					time.Sleep(time.Millisecond)
				}
			}
			time.Sleep(time.Until(sent.Add(time.Second)))
		}
		slices.Sort(lags)
		b.ReportMetric(lags[len(lags)*99/100].Seconds(), "s-lag-p99")
		b.ReportMetric(lags[len(lags)/2].Seconds(), "s-lag-p50")
	}
}
