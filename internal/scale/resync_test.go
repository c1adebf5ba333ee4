package scale_test

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/scale"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
)

const scaleDeployment = "scale"

// wire is a seeded console with a real Redis, and one gateway's end of it.
type wire struct {
	scale.Known
	conn   *pgx.Conn
	store  *db.Store
	redis  *testkit.RedisServer
	deps   console.Deps
	keys   *console.Keys
	signer ed25519.PrivateKey
	resets atomic.Int64
}

func newWire(t *testing.T, dsn string, known scale.Known) *wire {
	t.Helper()
	w := &wire{Known: known, redis: testkit.Redis(t), signer: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	var err error
	if w.conn, err = pgx.Connect(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.conn.Close(context.Background()) })
	if w.store, err = db.Open(context.Background(), dsn, 8); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	publisher, err := feed.NewPublisher(feed.Config{Client: w.connect(t), Deployment: scaleDeployment})
	if err != nil {
		t.Fatal(err)
	}
	w.deps = console.Deps{Store: w.store, Feed: publisher, Signer: w.signer, Deployment: scaleDeployment, Log: slog.New(slog.DiscardHandler)}
	w.keys = console.NewKeys(w.deps)
	return w
}

func (w *wire) connect(t *testing.T) redis.UniversalClient {
	t.Helper()
	o, err := feed.Options(w.redis.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// directory is a gateway's end, at work. changed gets a token at each change.
func (w *wire) directory(t *testing.T, entries int, stateDir string) (d *feed.Directory, changed <-chan struct{}) {
	t.Helper()
	c := make(chan struct{}, 1)
	d, err := feed.NewDirectory(feed.DirectoryConfig{
		Config:     feed.Config{Client: w.connect(t), Deployment: scaleDeployment},
		PublicKeys: []ed25519.PublicKey{w.signer.Public().(ed25519.PublicKey)}, Entries: entries, StateDir: stateDir, Timeout: 5 * time.Second,
		OnChange: func() {
			select {
			case c <- struct{}{}:
			default:
			}
		},
		OnReset: func() { w.resets.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, d.Run)
	return d, c
}

// runUntilEnd runs something until the test ends.
func runUntilEnd(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
}

// await waits for a condition, which it looks at on each signal and now and then.
func await(t *testing.T, changed <-chan struct{}, what string, most time.Duration, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-changed:
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: not within %v", what, most)
		}
	}
}

// carry has a console find Redis empty, and then send every key again: gateways
// keep what they cached, and a revocation does not stand in the line.
func (w *wire) carry(t *testing.T) {
	t.Helper()
	d, changed := w.directory(t, 1000, "")
	memory := watchHeap(t)
	relay := console.NewRelay(w.deps, w.store)
	begun := time.Now()
	runUntilEnd(t, relay.Run)
	await(t, changed, "Redis filled", 10*time.Minute, func() bool { return d.Stats().Whole })
	t.Logf("full resync: %v", time.Since(begun).Round(time.Millisecond))
	if k, err := d.Key(t.Context(), w.KID); err != nil || k.Tenant != w.TenantID {
		t.Fatalf("key %+v, %v", k, err)
	}
	w.resets.Store(0)
	w.bulk(t, d, changed, relay)
	t.Logf("most heap of console and gateway while it went on: %d MiB", memory()>>20)
	if n := w.resets.Load(); n != 0 {
		t.Errorf("the gateway dropped its cache %d times", n)
	}
	w.flat(t)
}

// bulk has all keys sent once more, as an import does, and revokes five
// meanwhile.
func (w *wire) bulk(t *testing.T, d *feed.Directory, changed <-chan struct{}, relay *console.Relay) {
	t.Helper()
	begun := time.Now()
	tag, err := w.conn.Exec(t.Context(), "INSERT INTO outbox (kind, ref, created_at, bulk) SELECT 'key', kid, now(), true FROM key_versions")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rows put into the outbox in %v", tag.RowsAffected(), time.Since(begun).Round(time.Millisecond))
	actor := console.SystemActor()
	var took []time.Duration
	rows, err := w.conn.Query(t.Context(), "SELECT kid FROM key_versions WHERE state = 'active' ORDER BY kid DESC LIMIT 5")
	if err != nil {
		t.Fatal(err)
	}
	kids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, kid := range kids {
		if _, err := d.Key(t.Context(), kid); err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		if _, err := w.keys.Revoke(t.Context(), actor, kid, "leak"); err != nil {
			t.Fatal(err)
		}
		relay.Nudge()
		await(t, changed, "revoked", time.Minute, func() bool {
			k, err := d.Key(t.Context(), kid)
			return err == nil && k.State == policy.KeyRevoked
		})
		took = append(took, time.Since(asked).Round(time.Millisecond))
	}
	left := w.pending(t)
	await(t, changed, "all sent", 15*time.Minute, func() bool { return w.pending(t) == 0 })
	t.Logf("%d rows sent in %v; revocations meanwhile took %v, the last with %d rows or more before it", tag.RowsAffected(), time.Since(begun).Round(time.Millisecond), took, left)
	if measured() >= 10 && left < 10_000 {
		t.Errorf("%d rows were left when the last revocation was through: it may have waited for them", left)
	}
	if worst := slices.Max(took); worst > 20*time.Second {
		t.Errorf("a revocation took %v", worst)
	}
}

func (w *wire) pending(t *testing.T) (n int64) {
	t.Helper()
	err := w.store.Read(t.Context(), func(tx console.Tx) (err error) { n, err = tx.CountPendingOutbox(t.Context()); return err })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// watchHeap looks at the heap until the returned function is called, which tells
// the most that was seen.
func watchHeap(t *testing.T) func() uint64 {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var most atomic.Uint64
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
		}
	})
	return func() uint64 { stop(); watching.Wait(); return most.Load() }
}
