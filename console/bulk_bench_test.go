package console_test

import (
	"bytes"
	"flag"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
)

var bulkRows = flag.Int("bulkrows", 100_000, "rows of BenchmarkBulk_ImportKeys")

// BenchmarkBulk_ImportKeys imports keys from the file to the last row: read,
// checked, done. It prints each part's time, and processor time of this process
// and of PostgreSQL, which say more on a busy machine.
func BenchmarkBulk_ImportKeys(b *testing.B) {
	for b.Loop() {
		e := newBulkEnv(b)
		acme := e.tenant(b, "Acme")
		csv := bytes.NewReader([]byte(keysCSV(acme.ID, 0, *bulkRows)))
		lap := laps(b, e.dsn)
		j, err := e.bulk.Create(e.ctx, e.me, console.NewBulk{Kind: console.BulkImportKeys, Reason: "measured", Format: console.BulkCSV, Input: csv})
		if err != nil {
			b.Fatal(err)
		}
		lap("read")
		e.work(b)
		lap("check")
		e.start(b, j.ID)
		e.work(b)
		lap("do")
		if got := e.get(b, j.ID); got.Done != int64(*bulkRows) {
			b.Fatalf("got %+v", got)
		}
	}
}

// laps returns what reports seconds since it was last called: of the clock, of
// this process' processor time and of that of the database server.
func laps(b *testing.B, dsn string) func(part string) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	look := func() (at time.Time, own, pg time.Duration) {
		// The server's processes, and those that have ended: a statement that took too long costs its connection.
		const q = `SELECT coalesce(sum(CASE WHEN dead THEN split_part(s, ' ', 16)::bigint + split_part(s, ' ', 17)::bigint
				ELSE split_part(s, ' ', 14)::bigint + split_part(s, ' ', 15)::bigint END), 0)::bigint
			FROM (SELECT pid::text, false AS dead FROM pg_stat_activity
				UNION ALL SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1), true) p,
			pg_read_file('/proc/' || p.pid || '/stat', 0, 400, true) s`
		var ticks int64
		if err := conn.QueryRow(b.Context(), q).Scan(&ticks); err != nil {
			b.Fatal(err)
		}
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Now(), time.Duration(u.Utime.Nano() + u.Stime.Nano()), time.Duration(ticks) * 10 * time.Millisecond
	}
	b.Cleanup(func() { _ = conn.Close(b.Context()) })
	at, own, pg := look()
	return func(part string) {
		at2, own2, pg2 := look()
		b.ReportMetric(at2.Sub(at).Seconds(), "s-"+part)
		b.ReportMetric((own2 - own).Seconds(), "cpu-"+part)
		b.ReportMetric((pg2 - pg).Seconds(), "pgcpu-"+part)
		at, own, pg = at2, own2, pg2
	}
}
