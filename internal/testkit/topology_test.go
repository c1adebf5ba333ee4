package testkit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
)

// clientOf returns a client of one node, without retries.
func clientOf(t *testing.T, n *testkit.Node) *redis.Client { return redisClient(t, n.URL) }

// eventually waits until ok returns nil, for 30 s at most.
func eventually(t *testing.T, ok func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		if ok() == nil {
			return
		}
		<-tick.C
	}
	t.Fatal(ok())
}

func TestSentinel_PromotesAReplicaThatHasEverything(t *testing.T) {
	t.Parallel()
	s := testkit.Sentinel(t)
	first := s.Primary()
	if len(s.Replicas()) != 2 || !strings.HasPrefix(s.URL(), "redis-sentinel://127.0.0.1:") {
		t.Fatalf("primary %s of %s", first.Addr, s.URL())
	}
	c := clientOf(t, first)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Wait(t.Context(), 2, 10*time.Second).Result(); err != nil || n != 2 {
		t.Fatalf("%d replicas have the key, %v", n, err)
	}
	second := s.Failover()
	if v, err := clientOf(t, second).Get(t.Context(), "k").Result(); err != nil || v != "v" {
		t.Errorf("after the ordered failover: %q, %v", v, err)
	}
	second.Kill()
	third := s.Promoted(second)
	if third == second {
		t.Fatal("the killed one is still the primary")
	}
	if v, err := clientOf(t, third).Get(t.Context(), "k").Result(); err != nil || v != "v" {
		t.Errorf("after the kill: %q, %v", v, err)
	}
	second.Start()
	eventually(t, func() error {
		info, err := clientOf(t, second).Info(t.Context(), "replication").Result()
		if err == nil && !strings.Contains(info, "role:slave") {
			err = fmt.Errorf("%s", info)
		}
		return err
	})
}

func TestSentinel_WithMinReplicasAnIsolatedPrimaryRefusesWrites(t *testing.T) {
	t.Parallel()
	s := testkit.Sentinel(t, testkit.WithMinReplicas())
	c := clientOf(t, s.Primary())
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Replicas() {
		r.Kill()
	}
	eventually(t, func() error {
		err := c.Set(t.Context(), "k", "v", 0).Err()
		if err == nil || !strings.HasPrefix(err.Error(), "NOREPLICAS") {
			return fmt.Errorf("a write: %w", err)
		}
		return nil
	})
}

func TestCluster_MovesSlotsAndSurvivesTheLossOfAPrimary(t *testing.T) {
	t.Parallel()
	c := testkit.Cluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), ClusterStateReloadInterval: time.Second})
	t.Cleanup(func() { _ = client.Close() })
	ctx := t.Context()
	for i := range 300 {
		if err := client.Set(ctx, fmt.Sprintf("{%d}:k", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	slot := c.Slot("{7}:k")
	from := c.Owner(slot)
	to := c.Nodes[0]
	if from == to {
		to = c.Nodes[1]
	}
	finish := c.BeginMove(slot, to)
	asked, err := redis.NewClient(&redis.Options{Addr: from.Addr}).Get(ctx, "{7}:absent").Result()
	if err == nil || !strings.HasPrefix(err.Error(), "ASK ") {
		t.Errorf("a key that is not there, half-way: %q, %v", asked, err)
	}
	finish()
	if now := c.Owner(slot); now != to {
		t.Errorf("slot %d is at %s, want %s", slot, now.Addr, to.Addr)
	}
	c.KillNode(to)
	eventually(t, func() error {
		v, err := client.Get(ctx, "{7}:k").Result()
		if err == nil && v != "7" {
			err = fmt.Errorf("%q", v)
		}
		return err
	})
}

func TestProxy_DoesToAConversationWhatIsAsked(t *testing.T) {
	t.Parallel()
	srv := testkit.Redis(t)
	p := testkit.Proxy(t, srv.Addr)
	o, err := redis.ParseURL(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.PoolSize = -1, 1, true, 1
	o.DisableIdentity, o.Protocol = true, 2
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	incr := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		return c.Incr(ctx, "n").Err()
	}
	const soon, long = 100 * time.Millisecond, 20 * time.Second
	must := func(what string) {
		t.Helper()
		if err := incr(long); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	fails := func(what string, timeout time.Duration) {
		t.Helper()
		if err := incr(timeout); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	must("passing") // 1
	p.DropReply()
	fails("reply dropped", soon)  // 2: done, and not known
	must("after the dropped one") // 3
	p.CutReply(1)
	fails("reply cut", long)  // 4
	must("after the cut one") // 5
	p.Hole()
	fails("black hole", soon)
	p.Pass()
	must("after the hole")
	p.Delay(soon)
	from := time.Now()
	must("delayed")
	if took := time.Since(from); took < soon {
		t.Errorf("delayed by %v, want %v", took, soon)
	}
	p.Cut()
	fails("cut", long)
	if p.Conns() != 0 {
		t.Errorf("%d connections while cut", p.Conns())
	}
	accepted := p.Accepted()
	p.Pass()
	must("after the cut")
	if p.Accepted() <= accepted || p.Conns() != 1 {
		t.Errorf("%d connections made, %d open", p.Accepted(), p.Conns())
	}
	if n := redisClient(t, srv.URL).Get(t.Context(), "n").Val(); n != "8" && n != "9" {
		t.Errorf("counted %s times, want 8, or 9 where the one in the hole arrived after all", n)
	}
}
