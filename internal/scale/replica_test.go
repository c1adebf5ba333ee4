package scale_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
)

// flat looks keys up in a random order, first few of them and then all: what a
// gateway holds depends on its bound, not on how many keys there are.
func (w *wire) flat(t *testing.T) {
	t.Helper()
	entries, few, all := 300, 600, 4000
	if measured() > 0 {
		entries, few, all = 5000, 10_000, 1<<30
	}
	rows, err := w.conn.Query(t.Context(), "SELECT kid FROM key_versions")
	if err != nil {
		t.Fatal(err)
	}
	kids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(kids), func(i, j int) { kids[i], kids[j] = kids[j], kids[i] })
	kids = kids[:min(all, len(kids))]
	d, _ := w.directory(t, entries, "")
	begun := time.Now()
	lookUp(t, d, kids[:few])
	before := heap()
	lookUp(t, d, kids)
	strangers := make([]string, few)
	for i := range strangers {
		strangers[i] = fmt.Sprintf("stranger%04x%06d", random.Uint32()&0xffff, i)
	}
	for i := 0; i < len(strangers); i += 100 { // unknown keys have a table of their own
		_, _ = d.Key(t.Context(), strangers[i])
	}
	after := heap()
	t.Logf("%d keys of %d cached; heap %.1f MiB after %d keys, %.1f MiB after %d, in %v", d.Stats().Entries, len(kids), mib(before), few, mib(after), len(kids),
		time.Since(begun).Round(time.Millisecond))
	if n := d.Stats().Entries; n > entries {
		t.Errorf("%d records are cached, at most %d", n, entries)
	}
	if after > before+before/4+(8<<20) {
		t.Errorf("the heap grew from %.1f to %.1f MiB with the number of keys", mib(before), mib(after))
	}
	runtime.KeepAlive(kids)
}

// lookUp asks for all of them, 32 at a time, which is what a directory lets out.
func lookUp(t *testing.T, d *feed.Directory, kids []string) {
	t.Helper()
	var asking sync.WaitGroup
	var failed atomic.Int64
	for part := range slices.Chunk(kids, (len(kids)+31)/32) {
		asking.Go(func() {
			for _, kid := range part {
				if _, err := d.Key(context.Background(), kid); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	asking.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d keys were not answered", n, len(kids))
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }

// TestReplica_T14_StartsFromItsCopyOnDisk: a gateway that starts while Redis is
// away answers for what it had cached, all of it, and soon.
func TestReplica_T14_StartsFromItsCopyOnDisk(t *testing.T) {
	t.Parallel()
	keys := 5000
	if measured() > 0 {
		keys = 100_000
	}
	signer := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	w := &wire{redis: testkit.Redis(t), signer: signer}
	publisher, err := feed.NewPublisher(feed.Config{Client: w.connect(t), Deployment: scaleDeployment})
	if err != nil {
		t.Fatal(err)
	}
	kids := make([]string, keys)
	records := make([]policy.SignedRecord, keys)
	for i := range records {
		kids[i] = fmt.Sprintf("k%011d", i)
		records[i], err = policy.SignRecord(signer, scaleDeployment, policy.RecordKey, kids[i], 1, policy.KeyRecord{KID: kids[i], Tenant: "ten_a",
			Credential: fmt.Sprintf("crd_%016d", i), Environment: "live", Digest: fmt.Sprintf("sha256:%064d", i), State: policy.KeyActive})
		if err != nil {
			t.Fatal(err)
		}
	}
	begin := publisher.BeginDirectory(t.Context())
	_, put := publisher.PutRecords(t.Context(), records)
	_, finish := publisher.FinishDirectory(t.Context(), "e1")
	if begin != nil || put != nil || finish != nil {
		t.Fatal(begin, put, finish)
	}
	dir := t.TempDir()
	fillDisk(t, w, dir, kids)
	w.redis.Kill()
	begun, before := time.Now(), processor(t)
	d, _ := w.directory(t, keys, dir)
	_, first := d.Cached(kids[0])
	took, busy := time.Since(begun), processor(t)-before
	for _, kid := range kids {
		if _, held := d.Cached(kid); !held {
			t.Fatalf("%s is not answered from the copy", kid)
		}
	}
	t.Logf("%d keys on disk: the first answer after %v, with %v of processor time; the target is 500ms; all verified after %v", keys, took.Round(time.Millisecond),
		busy.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	if !first || took > 30*time.Second {
		t.Errorf("the first key: %v, after %v", first, took)
	}
}

// processor is the time that this process has had of any processor.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fillDisk has a directory cache all keys and write them down.
func fillDisk(t *testing.T, w *wire, dir string, kids []string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	d, err := feed.NewDirectory(feed.DirectoryConfig{
		Config:     feed.Config{Client: w.connect(t), Deployment: scaleDeployment},
		PublicKeys: []ed25519.PublicKey{w.signer.Public().(ed25519.PublicKey)}, Entries: len(kids), StateDir: dir, Timeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Run(ctx)
	}()
	await(t, nil, "followed", time.Minute, func() bool { return d.Stats().Whole })
	lookUp(t, d, kids)
	stop()
	<-ended // it has written
}
