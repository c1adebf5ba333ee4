package console_test

import (
	"bytes"
	"flag"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

var bulkRows = flag.Int("bulkrows", 100_000, "rows of BenchmarkBulk_ImportKeys")

// BenchmarkBulk_ImportKeys imports keys from the file to the last row: read,
// checked, done. It prints each part's time.
func BenchmarkBulk_ImportKeys(b *testing.B) {
	for b.Loop() {
		e := newBulkEnv(b)
		acme := e.tenant(b, "Acme")
		csv := bytes.NewReader([]byte(keysCSV(acme.ID, 0, *bulkRows)))
		begun := time.Now()
		j, err := e.bulk.Create(e.ctx, e.me, console.NewBulk{Kind: console.BulkImportKeys, Reason: "measured", Format: console.BulkCSV, Input: csv})
		if err != nil {
			b.Fatal(err)
		}
		read := time.Since(begun)
		e.work(b)
		checked := time.Since(begun)
		e.start(b, j.ID)
		e.work(b)
		if got := e.get(b, j.ID); got.Done != int64(*bulkRows) {
			b.Fatalf("got %+v", got)
		}
		b.ReportMetric(read.Seconds(), "s-read")
		b.ReportMetric((checked - read).Seconds(), "s-check")
		b.ReportMetric((time.Since(begun) - checked).Seconds(), "s-do")
		b.ReportMetric(float64(*bulkRows)/time.Since(begun).Seconds(), "rows/s")
	}
}
