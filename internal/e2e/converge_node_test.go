package e2e_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
)

// node is a replica: what of a gateway follows and reports.
type node struct {
	run     *run
	id      string
	dir     string
	door    *testkit.FaultProxy
	mute    atomic.Bool
	watcher atomic.Pointer[feed.Watcher] // nil while it does not run
	stop    func()
	boots   int
	high    int64 // highest version that it ever said to have saved
}

func (r *run) newNode(i int) *node {
	n := &node{run: r, id: fmt.Sprintf("gw_%d_%d", r.seed, i), dir: filepath.Join(r.t.TempDir(), "state"), door: testkit.Proxy(r.t, r.redis.Addr)}
	if err := os.Mkdir(n.dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	n.start()
	return n
}

// loseDisk makes everything fail that the replica writes; what is there stays.
func (n *node) loseDisk() { _ = os.Rename(n.dir, n.dir+".away") }

func (n *node) findDisk() { _ = os.Rename(n.dir+".away", n.dir) }

// start is a boot: what lies on the disk, if that is there again, then Redis.
func (n *node) start() {
	n.findDisk()
	n.boots++
	client := n.run.client(n.door)
	cfg := feed.Config{Client: client, Namespace: n.run.ns, Deployment: "faults"}
	changes := make(chan struct{}, 1)
	w, err := feed.NewWatcher(feed.WatcherConfig{
		Config: cfg, PublicKeys: []ed25519.PublicKey{n.run.key.Public().(ed25519.PublicKey)}, StateDir: n.dir, Replica: n.id, Poll: 25 * time.Millisecond,
		OnChange: func() {
			select {
			case changes <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		n.run.t.Fatal(err)
	}
	reporter, err := feed.NewReporter(cfg)
	if err != nil {
		n.run.t.Fatal(err)
	}
	if v := w.Status().Version; v < n.high {
		n.run.t.Errorf("schedule %d: %s starts with v%d; it had said to have saved v%d", n.run.seed, n.id, v, n.high)
	}
	ctx, cancel := context.WithCancel(n.run.ctx)
	var parts sync.WaitGroup
	parts.Go(func() { _ = w.Run(ctx) })
	parts.Go(func() { n.report(ctx, w, reporter, changes) })
	n.watcher.Store(w)
	n.stop = func() {
		cancel()
		parts.Wait()
		_ = client.Close()
	}
}

// kill ends it without a word to anyone.
func (n *node) kill() {
	n.watcher.Store(nil)
	n.stop()
}

// report sends heartbeats as a gateway does, and oftener.
func (n *node) report(ctx context.Context, w *feed.Watcher, reporter *feed.Reporter, changes <-chan struct{}) {
	tick := time.NewTicker(60 * time.Millisecond)
	defer tick.Stop()
	for {
		s := w.Status()
		if !s.Unsaved {
			n.high = max(n.high, s.Version)
		}
		if !n.mute.Load() {
			beat, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			_, _, _ = reporter.Beat(beat, policy.Heartbeat{
				ID: n.id, Boot: strconv.Itoa(n.boots), Version: s.Version, Digest: s.Digest, Since: s.Since, NACK: s.NACK, Unsaved: s.Unsaved, Mode: policy.ModeNormal,
			})
			cancel()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changes:
		}
	}
}
