package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
)

// usageRoutes is how many routes the load is spread over, so that what is lost here and
// doubled there does not look right.
const usageRoutes = 8

// usagePolicy limits nothing and counts everything.
func usagePolicy() string {
	var b strings.Builder
	b.WriteString("apiVersion: headgate/v1\nplans: {free: {limits: []}}\nroutes:\n")
	for i := range usageRoutes {
		fmt.Fprintf(&b, "  - {name: r%d, match: [\"/r%d\"], identity: api_key, motive: fairness, cost: %d, on_store_failure: {mode: open, fallback: unlimited}}\n", i, i, i+1)
	}
	b.WriteString("  - {name: all, match: [\"/\"], identity: api_key, motive: fairness, limits: [{name: any, per: tenant, rate: 1000000/second, burst: 1000000}], on_store_failure: {mode: open, fallback: unlimited}}\n")
	return b.String()
}

// apiLog is an upstream that logs what reaches it, by path.
type apiLog struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]int64
}

func newAPILog(t *testing.T) *apiLog {
	a := &apiLog{seen: map[string]int64{}}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.seen[strings.TrimPrefix(r.URL.Path, "/")]++
		a.mu.Unlock()
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *apiLog) count(route string) int64 { a.mu.Lock(); defer a.mu.Unlock(); return a.seen[route] }

// clerk is a ledger in memory: it takes each event once, moves marks without gaps, and
// notices an event that comes back as another one.
type clerk struct {
	t         *testing.T
	publisher *feed.Publisher

	mu      sync.Mutex
	events  map[string]map[int64]ledger.Event // by replica and boot, then number
	marks   map[string]ledger.Mark
	doubled int // that came again, and were taken once
}

func newClerk(t *testing.T, url string) *clerk {
	t.Helper()
	o, err := feed.Options(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	p, err := feed.NewPublisher(feed.Config{Client: client, Deployment: fleetDeployment})
	if err != nil {
		t.Fatal(err)
	}
	return &clerk{t: t, publisher: p, events: map[string]map[int64]ledger.Event{}, marks: map[string]ledger.Mark{}}
}

// run reads until ctx ends. It forgets its place now and then, as a console that is
// started again does.
func (c *clerk) run(ctx context.Context) {
	place := ""
	for ctx.Err() == nil {
		bodies, next, err := c.publisher.Events(ctx, place)
		if place = next; err != nil || rand.IntN(20) == 0 {
			place = ""
		}
		if marks := c.take(bodies); len(marks) > 0 && rand.IntN(10) > 0 { // or it dies before it says so
			_ = c.publisher.SetCommitted(ctx, marks)
		}
		pause(ctx, 20*time.Millisecond)
	}
}

func (c *clerk) take(bodies [][]byte) []ledger.Mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	var marks []ledger.Mark
	for _, body := range bodies {
		b, err := ledger.Decode(body)
		if err != nil {
			c.t.Errorf("a batch cannot be read: %v", err)
			continue
		}
		run := b.Replica + " " + b.Boot
		of := c.events[run]
		if of == nil {
			of = map[int64]ledger.Event{}
			c.events[run] = of
		}
		for i, e := range b.Events {
			n := b.First + int64(i)
			if was, there := of[n]; there {
				if c.doubled++; was != e {
					c.t.Errorf("event %s %d was %+v and came again as %+v", run, n, was, e)
				}
			}
			of[n] = e
		}
		m := c.marks[run]
		m.Replica, m.Boot = b.Replica, b.Boot
		for _, more := of[m.Seq+1]; more; _, more = of[m.Seq+1] {
			m.Seq++
		}
		c.marks[run] = m
		marks = append(marks, m)
	}
	return marks
}

// sums is how many requests of a route came to an outcome, and their cost.
func (c *clerk) sums(route string, outcome usage.Outcome) (requests, cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.events {
		for _, e := range of {
			if e.Route == route && e.Outcome == outcome {
				requests += e.Requests
				cost += e.Cost
			}
		}
	}
	return requests, cost
}

// gaps are numbers that are missing below others.
func (c *clerk) gaps() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for run, of := range c.events {
		if int64(len(of)) != c.marks[run].Seq {
			return fmt.Errorf("%s: %d events, without a gap up to %d", run, len(of), c.marks[run].Seq)
		}
	}
	return nil
}

// usageLoad asks a gateway, whatever becomes of it, until it is ended.
type usageLoad struct {
	answered, asked atomic.Int64
	done            sync.WaitGroup
	end             context.CancelFunc
}

func startUsageLoad(t *testing.T, m *Member, key string, workers int) *usageLoad {
	ctx, end := context.WithCancel(t.Context())
	l := &usageLoad{end: end}
	for w := range workers {
		l.done.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				l.asked.Add(1)
				if a := m.Proxy(ctx, key, fmt.Sprintf("/r%d", i%usageRoutes)); a.Status == http.StatusOK {
					l.answered.Add(1)
				} else {
					pause(ctx, 10*time.Millisecond)
				}
			}
		})
	}
	return l
}

func (l *usageLoad) stop() { l.end(); l.done.Wait() }

// spoolEmpty waits until the ledger has all that a gateway has.
func (m *Member) spoolEmpty() {
	m.f.t.Helper()
	eventually(m.f.t, time.Minute, "the ledger has everything", func() error {
		if n := m.metric("headgate_spool_waiting_events"); n != 0 {
			return fmt.Errorf("%v events wait", n)
		}
		return nil
	})
}

// TestUsage_U01_I08_KillsAtAnyMomentLoseAndDoubleNothing kills a gateway at random
// moments while it forwards, flushes Redis in between, and has a console that dies before
// it says what it has committed. At the end the upstream's own log is within the ledger,
// and the surplus is marked.
func TestUsage_U01_I08_KillsAtAnyMomentLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	const workers = 4
	kills := sized(8, 200)
	f := NewFleet(t, testkit.RedisURL(t), usagePolicy())
	api := newAPILog(t)
	f.Start(1, unhurried, "--upstream="+api.URL)
	m := f.Gateways[0]
	books := newClerk(t, f.redisURL)
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() { books.run(ctx) })
	defer func() { stop(); reading.Wait() }()

	load := startUsageLoad(t, m, f.Key, workers)
	for i := range kills {
		pause(t.Context(), time.Duration(50+rand.IntN(sized(1200, 400)))*time.Millisecond)
		m.Kill()
		if i%4 == 3 {
			if err := f.wire.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			f.Refill()
		}
		m.Restart()
	}
	pause(t.Context(), time.Second)
	load.stop()
	m.Term() // the last ones are sent, or wait on the disk
	m.Restart()
	m.spoolEmpty()

	var upstream, interrupted int64
	for i := range usageRoutes {
		route := fmt.Sprintf("r%d", i)
		saw := api.count(route)
		admitted, cost := books.sums(route, usage.OutcomeAdmitted)
		cut, _ := books.sums(route, ledger.OutcomeInterrupted)
		upstream, interrupted = upstream+saw, interrupted+cut
		// Every answer came from the upstream; one that was cut off may have reached it or not.
		if admitted+cut < saw || admitted > saw+int64(workers) || cost != admitted*int64(i+1) {
			t.Errorf("%s: the upstream saw %d, the ledger has %d of cost %d and %d interrupted", route, saw, admitted, cost, cut)
		}
	}
	if interrupted > int64(workers*kills) {
		t.Errorf("%d are called interrupted after %d kills with %d under way", interrupted, kills, workers)
	}
	if err := books.gaps(); err != nil {
		t.Error(err)
	}
	// In few kills it may be that none fell between a sending and its mark.
	if load.answered.Load() == 0 || long() && books.doubled == 0 {
		t.Errorf("nothing was tried: %d answers, %d events came again", load.answered.Load(), books.doubled)
	}
	if n := m.metric("headgate_usage_unnoted_total") + m.metric("headgate_spool_unreadable_total"); n != 0 {
		t.Errorf("%v requests are unnoted or unreadable", n)
	}
	t.Logf("%d kills: %d of %d asked were answered, the upstream saw %d, %d interrupted, %d events came again",
		kills, load.answered.Load(), load.asked.Load(), upstream, interrupted, books.doubled)
}

// TestUsage_U06_I08_AFlushedRedisIsNoLoss flushes Redis while events are on their way and
// nobody reads, and then lets the console read.
func TestUsage_U06_I08_AFlushedRedisIsNoLoss(t *testing.T) {
	t.Parallel()
	f := NewFleet(t, testkit.RedisURL(t), usagePolicy())
	api := newAPILog(t)
	f.Start(1, unhurried, "--upstream="+api.URL)
	m := f.Gateways[0]
	ask := func() {
		t.Helper()
		for i := range 4 * usageRoutes {
			if a := m.Proxy(t.Context(), f.Key, fmt.Sprintf("/r%d", i%usageRoutes)); a.Status != http.StatusOK {
				t.Fatalf("status %d", a.Status)
			}
		}
	}
	ask()
	books := newClerk(t, f.redisURL)
	eventually(t, time.Minute, "events are on their way", func() error {
		n, err := f.wire.XLen(t.Context(), "hg:usage:{ledger}:events").Result()
		if err == nil && n == 0 {
			err = errors.New("none")
		}
		return err
	})
	if err := f.wire.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	f.Refill()
	ask()
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() { books.run(ctx) })
	defer func() { stop(); reading.Wait() }()
	eventually(t, time.Minute, "all is there", func() error {
		for i := range usageRoutes {
			route := fmt.Sprintf("r%d", i)
			a, _ := books.sums(route, usage.OutcomeAdmitted)
			b, _ := books.sums(route, usage.OutcomeFallbackAdmitted)
			if a+b != api.count(route) {
				return fmt.Errorf("%s: %d and %d of %d", route, a, b, api.count(route))
			}
		}
		return nil
	})
	m.spoolEmpty()
	if err := books.gaps(); err != nil {
		t.Error(err)
	}
}
