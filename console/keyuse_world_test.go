package console_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// keyFeed is a fakeFeed with a stream of key uses and a clock; places are numbers.
type keyFeed struct {
	*fakeFeed
	clock *clock
	mu    sync.Mutex
	skew  time.Duration // Redis' clock less the console's
	// lost counts the entries before the stream's first, so that places go on after a flush.
	stream [][]byte
	lost   int
	broken error
	reads  int
}

func (f *keyFeed) Now(ctx context.Context) (time.Time, error) {
	if _, err := f.fakeFeed.Now(ctx); err != nil {
		return time.Time{}, err
	}
	return f.clock.now().Add(f.skew), nil
}

func (f *keyFeed) KeyUse(_ context.Context, after string) ([][]byte, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	f.ring()
	if f.broken != nil {
		return nil, after, f.broken
	}
	at, _ := strconv.Atoi(after)
	from := max(at-f.lost, 0)
	to := min(from+3, len(f.stream))
	if to <= from {
		return nil, after, nil
	}
	return f.stream[from:to], strconv.Itoa(to + f.lost), nil
}

func (f *keyFeed) fail(err error) { f.mu.Lock(); defer f.mu.Unlock(); f.broken = err }

// useWorld is a console that learns who uses keys.
type useWorld struct {
	*env
	feed *keyFeed
	uses *console.KeyUses
}

func newUseWorld(t *testing.T) *useWorld {
	t.Helper()
	e := newEnv(t)
	w := &useWorld{env: e, feed: &keyFeed{fakeFeed: e.feed, clock: e.clock}}
	w.deps.Feed = w.feed
	w.again()
	return w
}

// again is the console after a restart.
func (w *useWorld) again() {
	w.fleet = console.NewFleet(w.deps)
	w.uses = console.NewKeyUses(w.deps, w.fleet, console.KeyUseRetention{})
}

// sec is the clock some seconds from now, as a replica tells it.
func (w *useWorld) sec(d int) int64 { return w.clock.now().Unix() + int64(d) }

// batch is what a replica tells now, through so many seconds ago.
func (w *useWorld) batch(replica string, seq int64, rows ...usage.KeyRow) *usage.KeyBatch {
	return &usage.KeyBatch{Replica: replica, Boot: "boot_" + replica, Seq: seq, From: w.sec(-7), Through: w.sec(-2), Started: w.sec(-100), Rows: rows}
}

func (w *useWorld) send(t *testing.T, batches ...*usage.KeyBatch) {
	t.Helper()
	for _, b := range batches {
		body, err := usage.EncodeKeys(b)
		if err != nil {
			t.Fatal(err)
		}
		w.feed.mu.Lock()
		w.feed.stream = append(w.feed.stream, body)
		w.feed.mu.Unlock()
	}
}

func (w *useWorld) collect(t *testing.T) {
	t.Helper()
	if err := w.uses.Collect(w.ctx); err != nil {
		t.Fatal(err)
	}
}

// used is a row of n requests at a second from now.
func (w *useWorld) used(kid, network, agent string, at int, n int64) usage.KeyRow {
	return usage.KeyRow{KID: kid, Network: network, Agent: agent, FirstUsed: w.sec(at), LastUsed: w.sec(at), Requests: n}
}

func (w *useWorld) refused(kid, network string, at int, n int64) usage.KeyRow {
	return usage.KeyRow{KID: kid, Network: network, Agent: "curl/8", FirstRefused: w.sec(at), LastRefused: w.sec(at), Requests: n, Refused: n}
}

func (w *useWorld) use(t *testing.T, kid string) (console.KeyUse, console.UseAge) {
	t.Helper()
	all, age, err := w.uses.Uses(w.ctx, []string{kid, "unknownunkno"})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) > 1 {
		t.Fatalf("uses are %+v", all)
	}
	return all[kid], age
}

func (w *useWorld) sources(t *testing.T, kid string) []console.KeySource {
	t.Helper()
	list, _, err := w.uses.Sources(w.ctx, kid, w.clock.now().Add(-30*24*time.Hour), 1000)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// alive makes replicas report now; they started so long ago.
func (w *useWorld) alive(ago time.Duration, replicas ...string) {
	now := w.clock.now()
	w.feed.set(func() {
		w.feed.beats = nil
		for _, id := range replicas {
			w.feed.beats = append(w.feed.beats, policy.Heartbeat{ID: id, Boot: "boot_" + id, At: now, Started: now.Add(-ago)})
		}
	})
}

func (w *useWorld) issued(t *testing.T) string {
	t.Helper()
	return w.issue(t, w.tenant(t, "Acme").ID).KeyVersion.KID
}

const (
	home   = "203.0.113.0/24"
	office = "2001:db8:1::/48"
)

func same(a *time.Time, unix int64) bool { return a != nil && a.Unix() == unix }
