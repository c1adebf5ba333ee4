package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
)

// replication watches servers for how far their histories have come, so that it
// can be said afterwards what a promoted replica had not heard of.
type replication struct {
	c    *crowd // whose clock it uses
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	offsets []mark                   // of the primary
	slave   map[string]time.Duration // when a server last said that it is a replica: before it was asked
}

// mark says that all that was answered before at is within offset.
type mark struct {
	at     time.Duration
	offset int64
}

// watchReplication asks the nodes, of which the first is the primary, until the
// test stops it.
func watchReplication(c *crowd, nodes []*testkit.Node) *replication {
	ctx, cancel := context.WithCancel(context.Background())
	w := &replication{c: c, stop: cancel, slave: map[string]time.Duration{}}
	for i, n := range nodes {
		client := redis.NewClient(&redis.Options{Addr: n.Addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: 200 * time.Millisecond, ReadTimeout: time.Second})
		w.wg.Go(func() {
			defer func() { _ = client.Close() }()
			for ctx.Err() == nil {
				at := c.now()
				info, err := client.Info(ctx, "replication").Result()
				if err == nil {
					w.note(i == 0, n.Addr, at, info)
				}
				pause(ctx, 2*time.Millisecond)
			}
		})
	}
	return w
}

func (w *replication) note(primary bool, addr string, at time.Duration, info string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch role := infoField(info, "role"); {
	case primary && role == "master":
		w.offsets = append(w.offsets, mark{at, infoNumber(info, "master_repl_offset")})
	case role == "slave":
		w.slave[addr] = at
	}
}

// replicated is the last time before which all that the old primary answered is
// known to the promoted server: its history was at offset when it took over.
func (w *replication) replicated(offset int64) (at time.Duration) {
	w.stop()
	w.wg.Wait()
	for _, m := range w.offsets {
		if m.offset <= offset {
			at = max(at, m.at)
		}
	}
	return at
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return v
		}
	}
	return ""
}

func infoNumber(info, name string) int64 {
	n, _ := strconv.ParseInt(infoField(info, name), 10, 64)
	return n
}

// takenOver is the offset at which a promoted server left its primary's history.
func takenOver(t *testing.T, n *testkit.Node) int64 {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: n.Addr})
	defer func() { _ = c.Close() }()
	info, err := c.Info(t.Context(), "replication").Result()
	if err != nil || infoNumber(info, "second_repl_offset") < 1 {
		t.Fatalf("no offset of %s: %v\n%s", n.Addr, err, info)
	}
	return infoNumber(info, "second_repl_offset") - 1
}

// TestSentinel_I05_R05_R047_AFailoverGivesBackWhatItLostAndNoMore kills, and at
// length also suspends, the primary while twelve gateways admit what they can.
// The promoted replica does not know what was admitted since it last heard from
// the old primary: so much may be admitted twice, and not one more.
func TestSentinel_I05_R05_R047_AFailoverGivesBackWhatItLostAndNoMore(t *testing.T) {
	t.Parallel()
	faults := map[string]func(*testkit.Node){"kill": (*testkit.Node).Kill}
	if long() {
		faults["stop"] = (*testkit.Node).Pause
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failover(t, fault)
		})
	}
}

func failover(t *testing.T, fault func(*testkit.Node)) {
	// What refills while there is no primary must not fill the buckets: then it
	// would not show that a burst was handed out afresh.
	hot, lent := sized(bucket{300, 20}, bucket{1000, 50}), sized(bucket{800, 100}, bucket{3000, 300})
	set := testkit.Sentinel(t, testkit.WithMinReplicas())
	f := NewFleet(t, set.URL(), hotPolicy(twelve, hot, lent))
	f.Start(twelve, unhurried)
	exactly, leased, shared := f.Crowd(1, "/exact"), f.Crowd(1, "/leased"), f.Crowd(1, "/shared")
	for _, c := range []*crowd{exactly, leased, shared} {
		c.drained(t)
	}
	old := set.Primary()
	w := watchReplication(exactly, append([]*testkit.Node{old}, set.Replicas()...))
	pause(t.Context(), sized(time.Second, 10*time.Second))

	killed := exactly.now()
	fault(old)
	dead := exactly.now()
	now := set.Promoted(old)
	for _, m := range f.Gateways {
		eventually(t, time.Minute, "a gateway decides by the new primary", func() error {
			if a := m.Check(f.Key, "/warm"); a.Status != 200 {
				return fmt.Errorf("status %d", a.Status)
			}
			return nil
		})
	}
	took(t, "twelve gateways decide again after a failover", exactly.now()-killed, 3500*time.Millisecond)
	pause(t.Context(), sized(time.Second, 10*time.Second))
	known := w.replicated(takenOver(t, now))
	promoted := w.slave[now.Addr] // it still was a replica then

	s := exactly.done(t)
	lost := min(hot.burst, len(s.of(admitted).sentBefore(dead).answeredAfter(known)))
	t.Logf("the new primary knows all that was answered until %s before the fault", killed-known)
	s.keepsTo(t, "/exact", hot.burst, hot.rate, lost)
	if n := len(s.of(admitted).within(dead, promoted)); n > 0 {
		t.Errorf("%d were admitted on a closed route while there was no primary", n)
	}
	if len(s.of(unavailable)) == 0 {
		t.Error("nobody noticed the failover")
	}

	const slice = 50 * time.Millisecond // for which a slice's tokens are spent after they were debited
	s = leased.done(t)
	s.keepsTo(t, "/leased", lent.burst, lent.rate, min(lent.burst, len(s.of(admitted).sentBefore(dead+slice).answeredAfter(known))))
	s = shared.done(t)
	s.keepsTo(t, "/shared", hot.burst, hot.rate, min(hot.burst, len(s.of(admitted).sentBefore(dead).answeredAfter(known))))
	s.keepsToShares(t, hot.burst, hot.rate)
}

// sentBefore picks what was sent before a time.
func (s seen) sentBefore(at time.Duration) seen {
	return s.pick(func(e event) bool { return e.sent < at })
}

// answeredAfter picks what was answered at a time or later.
func (s seen) answeredAfter(at time.Duration) seen {
	return s.pick(func(e event) bool { return e.answered >= at })
}

// keepsToShares holds what gateways admitted by themselves to the limit's
// numbers, divided among them: together that is the limit again.
func (s seen) keepsToShares(t *testing.T, b, r int) {
	t.Helper()
	here := s.of(admittedHere)
	if len(here) == 0 {
		t.Errorf("/shared: nothing was admitted without Redis: %v", s.counts())
		return
	}
	worst, from, to := here.excess(b, r)
	t.Logf("/shared: %d admitted without Redis, %d to spare", len(here), -worst)
	if worst > 0 {
		t.Errorf("/shared: the shares of all exceed the limit by %d from %s to %s", worst, from, to)
	}
}
