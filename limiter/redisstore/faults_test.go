package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
	"github.com/headgate/headgate/policy"
)

// long reports whether the long runs were asked for.
func long() bool { return os.Getenv("HEADGATE_STEPS") != "" }

// twelve are the clients of as many gateways.
func twelve(t *testing.T, url string) func() []limiter.Store {
	return func() []limiter.Store {
		var all []limiter.Store
		for range 12 {
			all = append(all, redisstore.New(patientTo(t, url), options))
		}
		return all
	}
}

func TestStore_I25_CallsOfTwelveGatewaysHaveAnOrder(t *testing.T) {
	t.Parallel()
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		storetest.Linearizable(t, twelve(t, testkit.RedisURL(t)))
	})
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		storetest.Linearizable(t, twelve(t, testkit.Cluster(t).URL()))
	})
}

// TestSentinel_I25_R05_CallsHaveAnOrderAcrossAFailover: the primary is killed in
// the midst of them, and comes back as a replica.
func TestSentinel_I25_R05_CallsHaveAnOrderAcrossAFailover(t *testing.T) {
	t.Parallel()
	set := testkit.Sentinel(t)
	storetest.LinearizableAcross(t, twelve(t, set.URL()), func(testing.TB) {
		old := set.Primary()
		old.Kill()
		set.Promoted(old)
		old.Start()
	})
}

// TestLimiter_R037_R13_ADemotedPrimaryIsLeftAtOnce: the address is that of
// another server now, but connections to the old one are still open.
func TestLimiter_R037_R13_ADemotedPrimaryIsLeftAtOnce(t *testing.T) {
	t.Parallel()
	first, second := testkit.Redis(t), testkit.Redis(t)
	var target atomic.Pointer[string]
	target.Store(&first.Addr)
	client, err := redisstore.PatientThrough(first.URL, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, *target.Load())
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, options)
	crowd(t, []*redisstore.Store{store}, 16, 20, hourly) // so that many connections are open
	host, port, _ := net.SplitHostPort(second.Addr)
	if err := patient(t, first.URL).ReplicaOf(context.Background(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	target.Store(&second.Addr)
	refused := 0
	for range 100 {
		if _, err := store.Take(within(t, 10*time.Second), one("l")); err != nil {
			refused++
			if cause := redisstore.Cause(err); cause != "readonly" && cause != "masterdown" {
				t.Errorf("%v (%s)", err, cause)
			}
		}
	}
	if refused == 0 || refused > 16 {
		t.Errorf("%d of 100 met the demoted server, want at least one and at most one for each of 16 connections", refused)
	}
}

// TestSentinel_R037_ThePromotedReplicaIsFound within a second of its promotion.
func TestSentinel_R037_ThePromotedReplicaIsFound(t *testing.T) {
	t.Parallel()
	set := testkit.Sentinel(t)
	opts := options
	opts.Budget = 100 * time.Millisecond
	store, err := redisstore.Open(set.URL(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	ask := func() error {
		_, err := store.Take(within(t, time.Second), one("l"))
		return err
	}
	eventually(t, "a first decision", func() bool { return ask() == nil })
	old := set.Primary()
	old.Kill()
	set.Promoted(old)
	promoted := time.Now()
	eventually(t, "a decision of the new primary", func() bool { return ask() == nil })
	holds(t, "finding the new primary", time.Since(promoted), time.Second, 20*time.Second)
	old.Start()
	for range 50 {
		if err := ask(); redisstore.Cause(err) == "readonly" {
			t.Errorf("the old primary, back as a replica, is asked: %v", err)
		}
	}
}

// TestLimiter_R052_TheTimeToWaitForDoesNotWobble: all gateways tell the same
// instant in every answer, and no replica is ever asked.
func TestLimiter_R052_TheTimeToWaitForDoesNotWobble(t *testing.T) {
	t.Parallel()
	set := testkit.Sentinel(t)
	n := policy.Numbers{Tokens: 1, Period: 3_600_000_000, Burst: 1}
	nodes := []*redisstore.Store{redisstore.New(patientTo(t, set.URL()), options), redisstore.New(patientTo(t, set.URL()), options)}
	due := take(t, nodes[0], storetest.Draw(tenant, "l", n, 1)).NowMicros + n.Period
	for i := range 120 {
		out := take(t, nodes[i%2], storetest.Draw(tenant, "l", n, 1))
		if got := out.NowMicros + out.Levels[0].WaitMicros; out.Admitted || got != due {
			t.Fatalf("answer %d: %+v: due at %d, want %d", i, out, got, due)
		}
	}
	for _, replica := range set.Replicas() {
		if strings.Contains(patient(t, replica.URL).Info(context.Background(), "commandstats").Val(), "cmdstat_evalsha:") {
			t.Errorf("the replica %s was asked", replica.Addr)
		}
	}
}

// TestStore_R04_AnAnswerThatIsCutIsChargedOnceAndItsConnectionEnds.
func TestStore_R04_AnAnswerThatIsCutIsChargedOnceAndItsConnectionEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	between := testkit.Proxy(t, r.server.Addr)
	client, err := redisstore.PatientThrough(between.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, options)
	n := policy.Numbers{Tokens: 1, Period: 3_600_000_000, Burst: 1000}
	left := func() int64 {
		return take(t, r.real, storetest.Draw(tenant, "l", n, n.Burst)).Levels[0].Remaining(n)
	}
	take(t, store, storetest.Draw(tenant, "l", n, 1))
	for bytes := range 12 {
		if err := store.Ping(within(t, 10*time.Second)); err != nil { // a connection for the next call
			t.Fatal(err)
		}
		before, connections := left(), between.Accepted()
		between.CutReply(bytes)
		_, err := store.Take(within(t, 10*time.Second), draw(storetest.Draw(tenant, "l", n, 1)))
		if !errors.Is(err, limiter.ErrStore) || redisstore.Cause(err) != "down" {
			t.Errorf("cut after %d bytes: %v (%s)", bytes, err, redisstore.Cause(err))
		}
		if got := before - left(); got != 1 {
			t.Errorf("cut after %d bytes: charged %d times", bytes, got)
		}
		take(t, store, storetest.Draw(tenant, "other", n, 1))
		if between.Accepted() == connections {
			t.Errorf("cut after %d bytes: the connection is used again", bytes)
		}
	}
}

// TestStore_R08_FlushedScriptsAreLoadedAgain on a Cluster, all the time.
func TestStore_R08_FlushedScriptsAreLoadedAgainOnACluster(t *testing.T) {
	t.Parallel()
	url := testkit.Cluster(t).URL()
	client := patientTo(t, url)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				_ = client.(*redis.ClusterClient).ForEachMaster(context.Background(), func(ctx context.Context, node *redis.Client) error {
					return node.ScriptFlush(ctx).Err()
				})
			}
		}
	})
	nodes := []*redisstore.Store{redisstore.New(patientTo(t, url), options), redisstore.New(patientTo(t, url), options)}
	yes, no := crowd(t, nodes, 6, 100, hourly)
	close(done)
	wg.Wait()
	if yes != 100 || no != 500 {
		t.Errorf("%d admitted, %d refused; want 100, 500", yes, no)
	}
}

// TestStore_R12_AClockThatJumpsCostsNoMoreThanItsJump and locks nobody out.
func TestStore_R12_AClockThatJumpsCostsNoMoreThanItsJump(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := policy.Numbers{Tokens: 1, Period: 1_000_000, Burst: 100}
	granted := func() (sum int64) {
		for take(t, r.virtual, storetest.Draw(tenant, "l", n, 1)).Admitted {
			sum++
		}
		return sum
	}
	leases := []limiter.Lease{
		{Row: tenant, Hash: 1, Max: 2, ID: "lease-of-sixteen-a", HoldMicros: 10_000_000},
		{Row: tenant, Hash: 1, Max: 2, ID: "lease-of-sixteen-b", HoldMicros: 10_000_000},
	}
	renewed := func(when string) {
		t.Helper()
		held, err := r.virtual.Renew(context.Background(), leases)
		if err != nil || !held[0] || !held[1] {
			t.Errorf("%s: %v, %v", when, held, err)
		}
	}
	granted()
	renewed("at first")
	r.clock.Advance(time.Minute)
	if got := granted(); got != 60 {
		t.Errorf("%d granted after a jump of 60 s, want min(B, r·J) = 60", got)
	}
	renewed("after a jump forward")
	r.clock.Advance(-time.Minute)
	out := take(t, r.virtual, storetest.Draw(tenant, "l", n, 1))
	if out.Admitted || out.Levels[0].WaitMicros > n.Period {
		t.Errorf("after a step back: %+v, want a wait of at most one token's time", out)
	}
	renewed("after a step back")
	r.clock.Advance(time.Second)
	if got := granted(); got != 1 {
		t.Errorf("%d granted a second later, want 1", got)
	}
	for _, key := range []string{r.row(), r.real.SlotKey(leases[0])} {
		if ttl := r.ttl(t, key); ttl <= 0 {
			t.Errorf("%s: TTL %v", key, ttl)
		}
	}
}

// TestStore_I02_EveryKeyExpires at any instant: under load of all kinds, and after
// a kill in the midst of it.
func TestStore_I02_EveryKeyExpires(t *testing.T) {
	t.Parallel()
	server := testkit.Redis(t, "appendonly yes")
	client := patient(t, server.URL)
	nodes := stores(t, server.URL, 3)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-stop:
					return
				default:
				}
				anyCall(nodes[i%3], i, round)
			}
		})
	}
	eventually(t, "keys", func() bool { return client.DBSize(context.Background()).Val() > 60 })
	for range 3 {
		expiries(t, client)
	}
	server.Kill()
	close(stop)
	wg.Wait()
	server.Start()
	eventually(t, "the end of loading", func() bool { return errors.Is(client.Get(context.Background(), "x").Err(), redis.Nil) })
	if seen := expiries(t, client); seen < 20 {
		t.Errorf("only %d keys were looked at", seen)
	}
}

// anyCall makes one call of some kind; it may fail, because Redis may be dead.
func anyCall(s *redisstore.Store, i, round int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	d := everything(fmt.Sprintf("lease-of-sixteen-%d-%d", i, round))
	d.Charges[1].Row.Subject = fmt.Sprint(round % 200)
	switch round % 4 {
	case 0:
		_, _ = s.Take(ctx, d)
	case 1:
		_, _ = s.Take(ctx, draw(storetest.Draw(storetest.Tenant(fmt.Sprint("ten_", round%50)), "l", small, 1)))
	case 2:
		_ = s.Amend(ctx, fmt.Sprint(i, "-", round%100), []limiter.Amendment{{Row: tenant, Hash: 1, Numbers: small, Tokens: -1}})
	case 3:
		_, _ = s.Renew(ctx, []limiter.Lease{d.Slots[0].Held()})
	}
}

// expiries wants a TTL on each key, no longer than what is in it can matter, and
// returns how many there are.
func expiries(t *testing.T, client *redis.Client) int {
	t.Helper()
	ctx, seen := context.Background(), 0
	keys := client.Scan(ctx, 0, "*", 100).Iterator()
	for keys.Next(ctx) {
		key := keys.Val()
		ttl, err := client.PTTL(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		bound := 100*time.Hour + 2*time.Second // the slowest bucket in use
		switch strings.SplitN(key, ":", 5)[3] {
		case "z":
			bound = 62 * time.Second
		case "q":
			bound = time.Until(time.UnixMicro(farEnd)) + time.Hour + time.Minute
		case "m":
			bound = time.Hour
		}
		if ttl == -1 || ttl > bound {
			t.Errorf("%q: TTL %v, want at most %v", key, ttl, bound)
		}
		seen++
	}
	if err := keys.Err(); err != nil {
		t.Fatal(err)
	}
	return seen
}

// TestStore_T9_BytesPerIdentifier: what the layout takes of Redis' memory; its own
// bookkeeping is 80 to 85 bytes of it.
func TestStore_T9_BytesPerIdentifier(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const identifiers = 130_000 // nearly 2^17, as a million is nearly 2^20: Redis' tables are as full
	memory := func() int64 {
		var used int64
		for line := range strings.SplitSeq(r.client.Info(context.Background(), "memory").Val(), "\r\n") {
			if n, found := strings.CutPrefix(line, "used_memory:"); found {
				_, _ = fmt.Sscan(n, &used)
			}
		}
		return used
	}
	minute := rate(t, 60, time.Minute, 60)
	take(t, r.virtual, storetest.Draw(limiter.Row{Kind: limiter.RowIP, Subject: "warm"}, "l", minute, 1))
	before := memory()
	for from := 0; from < identifiers; from += 500 {
		var draws []*limiter.Draw
		for i := range 500 {
			draws = append(draws, draw(storetest.Draw(limiter.Row{Kind: limiter.RowIP, Subject: fmt.Sprint(from + i)}, "l", minute, 1)))
		}
		if _, errs := r.virtual.TakeAll(context.Background(), draws); errs[0] != nil {
			t.Fatal(errs[0])
		}
	}
	each := float64(memory()-before) / identifiers
	t.Logf("%.1f bytes per identifier", each)
	if each > 172 {
		t.Errorf("%.1f bytes per identifier, want about 161", each)
	}
}
