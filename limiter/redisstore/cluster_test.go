package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
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

func TestStore_ConformsOnACluster(t *testing.T) {
	t.Parallel()
	conforms(t, testkit.Cluster(t).URL())
}

func TestStore_ConformsOnSentinel(t *testing.T) {
	t.Parallel()
	conforms(t, testkit.Sentinel(t).URL())
}

var evalshaCalls = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+).*rejected_calls=(\d+)`)

// scriptCalls is the number of script calls that all servers have had, those
// included that they sent elsewhere.
func scriptCalls(t *testing.T, client redis.UniversalClient) int64 {
	t.Helper()
	var sum atomic.Int64
	masters(t, client, func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx, "commandstats").Result()
		if match := evalshaCalls.FindStringSubmatch(info); match != nil {
			for _, count := range match[1:] {
				n, _ := strconv.ParseInt(count, 10, 64)
				sum.Add(n)
			}
		}
		return err
	})
	return sum.Load()
}

// inAddressToo is everything, and an address that lies in another lane.
func inAddressToo(s *redisstore.Store, i int) *limiter.Draw {
	d := everything(fmt.Sprintf("lease-of-sixteen-%d", i))
	for a := 0; ; a++ {
		row := limiter.Row{Kind: limiter.RowIP, Subject: fmt.Sprint("192.0.2.", a)}
		if s.Lane(row) != s.Lane(tenant) {
			d.Charges = append(d.Charges, storetest.Draw(row, "by address", hourly, 1))
			return d
		}
	}
}

// TestStore_I03_ADecisionIsOneCallAndTwoOnACluster whatever it draws from.
func TestStore_I03_ADecisionIsOneCallAndTwoOnACluster(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, url     string
		within, tenth int64
	}{
		{"one server", testkit.RedisURL(t), 1, 1},
		{"Sentinel", testkit.Sentinel(t).URL(), 1, 1},
		{"Cluster", testkit.Cluster(t).URL(), 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := patientTo(t, c.url)
			store := redisstore.New(client, options)
			decide := func(d *limiter.Draw) {
				t.Helper()
				if out, err := store.Take(context.Background(), d); err != nil || !out.Admitted {
					t.Fatalf("%+v, %v", out, err)
				}
			}
			exercise(t, store) // so that no call meets NOSCRIPT below
			decide(inAddressToo(store, 0))
			for name, want := range map[string]int64{"of a tenant": c.within, "of a tenant and an address": c.tenth} {
				before := scriptCalls(t, client)
				for i := range 10 {
					d := inAddressToo(store, i)
					d.Slots, d.Quotas = d.Slots[:0], d.Quotas[:1]
					if name == "of a tenant" {
						d.Charges = d.Charges[:3]
					}
					decide(d)
				}
				if got := scriptCalls(t, client) - before; got != 10*want {
					t.Errorf("10 decisions %s took %d calls, want %d", name, got, 10*want)
				}
			}
		})
	}
}

// TestLimiter_R041_NoKeysOfOneCallLieInTwoSlots: a thousand tenants, each with a
// plan, a route, an address, a quota and concurrency.
func TestLimiter_R041_NoKeysOfOneCallLieInTwoSlots(t *testing.T) {
	t.Parallel()
	store := redisstore.New(patientTo(t, testkit.Cluster(t).URL()), options)
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			for i := caller; i < 1000; i += 8 {
				d := inAddressToo(store, i)
				for _, row := range []*limiter.Row{&d.Charges[0].Row, &d.Charges[1].Row, &d.Charges[2].Row, &d.Slots[0].Row, &d.Quotas[0].Row} {
					row.Tenant = fmt.Sprint("ten_", i)
				}
				if _, err := store.Take(context.Background(), d); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestCluster_ShadowsOfOneDrawAgreeAcrossLanes: none is spent when one of them
// would have refused, in whichever lane it lies.
func TestCluster_ShadowsOfOneDrawAgreeAcrossLanes(t *testing.T) {
	t.Parallel()
	store := redisstore.New(patientTo(t, testkit.Cluster(t).URL()), options)
	d := inAddressToo(store, 0)
	address := &d.Charges[len(d.Charges)-1]
	full := func(c *limiter.Charge) bool {
		probe := *c
		probe.Cost, probe.Shadow, probe.Extra, probe.Identifiers = c.Numbers.Burst, true, 0, 0
		// A second shadow that never pays keeps the probe from being spent.
		never := storetest.Draw(c.Row, "never", small, small.Burst)
		never.Shadow = true
		out, err := store.Take(context.Background(), draw(probe, never))
		if err != nil {
			t.Fatal(err)
		}
		return out.Levels[0].WaitMicros == 0
	}
	for _, row := range []limiter.Row{tenant, address.Row} { // leave nothing of "never"
		take(t, store, storetest.Draw(row, "never", policy.Numbers{Tokens: 1, Period: hourly.Period, Burst: small.Burst}, small.Burst))
	}
	for _, spent := range []int{0, 1} {
		mine, theirs := storetest.Draw(tenant, fmt.Sprint("shadow", spent), hourly, 1), storetest.Draw(address.Row, fmt.Sprint("shadow", spent), hourly, 1)
		mine.Shadow, theirs.Shadow = true, true
		empty := []limiter.Charge{mine, theirs}[spent]
		empty.Shadow, empty.Cost = false, hourly.Burst
		take(t, store, empty)
		out, err := store.Take(context.Background(), draw(mine, theirs, storetest.Draw(tenant, "l", hourly, 1)))
		if err != nil || !out.Admitted {
			t.Fatalf("%+v, %v", out, err)
		}
		other := []*limiter.Charge{&theirs, &mine}[spent]
		if got := out.Levels[1-spent]; got.Units != hourly.Full() {
			t.Errorf("lane %d is empty: the other's shadow is told as %+v, want full", spent, got)
		}
		eventually(t, "the other shadow to be full again", func() bool { return full(other) })
	}
}

// TestCluster_R036_ALostAnswerIsChargedOnceAndNeverReplayed: go-redis would send
// a command again after each of these.
func TestCluster_R036_ALostAnswerIsChargedOnceAndNeverReplayed(t *testing.T) {
	t.Parallel()
	cluster := testkit.Cluster(t)
	direct := redisstore.New(patientTo(t, cluster.URL()), options)
	proxies := map[string]*testkit.FaultProxy{}
	for _, addr := range cluster.Addrs() {
		proxies[addr] = testkit.Proxy(t, addr)
	}
	client, err := redisstore.PatientThrough(cluster.URL(), func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, proxies[addr].Addr)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, options)
	owner := proxies[cluster.Owner(cluster.Slot(direct.RowKey(tenant))).Addr]
	n := policy.Numbers{Tokens: 1, Period: 3_600_000_000, Burst: 1000}
	charge := storetest.Draw(tenant, "l", n, 1)
	left := func() int64 {
		whole := charge
		whole.Cost = n.Burst
		return take(t, direct, whole).Levels[0].Remaining(n)
	}
	take(t, store, charge) // so that nobody finds a full bucket to spend
	charged := int64(0)
	for round := range 12 {
		eventually(t, "a connection", func() bool { _, err := store.Take(within(t, time.Second), one("warm")); return err == nil })
		before, wait := left(), 5*time.Second
		switch round % 3 {
		case 0:
			owner.DropReply()
			wait = 300 * time.Millisecond
		case 1:
			owner.CutReply(0)
		case 2:
			owner.CutReply(10)
		}
		_, err := store.Take(within(t, wait), draw(charge))
		owner.Pass()
		if !errors.Is(err, limiter.ErrStore) { // the client was asking for the slots: that answer was lost
			charged--
		}
		if !within1s(func() bool { return left() < before }) {
			continue // a handshake or a question for the slots was hit instead
		}
		if got := before - left(); got != 1 {
			t.Fatalf("round %d: charged %d times", round, got)
		}
		charged++
	}
	if charged < 6 {
		t.Errorf("only %d of 12 lost answers were those of decisions", charged)
	}
}

// within1s asks until it is so, for at most a second.
func within1s(so func() bool) bool {
	again, late := time.NewTicker(time.Millisecond), time.After(time.Second)
	defer again.Stop()
	for !so() {
		select {
		case <-again.C:
		case <-late:
			return false
		}
	}
	return true
}

// hammer makes decisions for many tenants until stopped; every tenant's limit is
// hourly. It returns what each was granted, and the decisions and failures.
func hammer(store *redisstore.Store, tenants, callers int, stop <-chan struct{}) (granted []atomic.Int64, decisions, failures *atomic.Int64) {
	granted, decisions, failures = make([]atomic.Int64, tenants), &atomic.Int64{}, &atomic.Int64{}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; ; i += callers {
				select {
				case <-stop:
					return
				default:
				}
				at := i % tenants
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				out, err := store.Take(ctx, draw(storetest.Draw(storetest.Tenant(fmt.Sprint("ten_", at)), "l", hourly, 1)))
				cancel()
				decisions.Add(1)
				if err != nil {
					failures.Add(1)
				} else if out.Admitted {
					granted[at].Add(1)
				}
			}
		})
	}
	wg.Wait()
	return granted, decisions, failures
}

func TestCluster_R07_ReshardingUnderLoadCostsNoDecisionAndNoToken(t *testing.T) {
	t.Parallel()
	cluster := testkit.Cluster(t)
	store := redisstore.New(patientTo(t, cluster.URL()), options)
	take(t, store, storetest.Draw(tenant, "l", small, 1))
	stop, done := make(chan struct{}), make(chan struct{})
	var granted []atomic.Int64
	var decisions, failures *atomic.Int64
	go func() {
		defer close(done)
		granted, decisions, failures = hammer(store, 200, 8, stop)
	}()
	slot := cluster.Slot(store.RowKey(storetest.Tenant("ten_1")))
	from := max(0, slot-20)
	target := cluster.Nodes[0]
	if cluster.Owner(slot) == target {
		target = cluster.Nodes[1]
	}
	cluster.MoveSlots(slot, slot, target)
	for s := from; s < from+40; s++ {
		if cluster.Owner(s) != target {
			cluster.MoveSlots(s, s, target)
		}
	}
	close(stop)
	<-done
	for i := range granted {
		if got := granted[i].Load(); got > hourly.Burst {
			t.Errorf("tenant %d was granted %d of %d", i, got, hourly.Burst)
		}
	}
	t.Logf("%d of %d decisions failed", failures.Load(), decisions.Load())
	if failures.Load()*1000 > decisions.Load() {
		t.Errorf("%d of %d decisions failed, want at most 0.1 %%", failures.Load(), decisions.Load())
	}
}

// TestCluster_R07_ADeadShardFailsAloneAndComesBack: its lanes' errors are marked
// as its own, the others go on, and its replica is found.
func TestCluster_R07_ADeadShardFailsAloneAndComesBack(t *testing.T) {
	t.Parallel()
	cluster := testkit.Cluster(t)
	store := redisstore.New(patientTo(t, cluster.URL()), options)
	lost, rest := tenant, limiter.Row{}
	owner := cluster.Owner(cluster.Slot(store.RowKey(lost)))
	for i := 0; rest.Tenant == ""; i++ {
		row := storetest.Tenant(fmt.Sprint("ten_", i))
		if cluster.Owner(cluster.Slot(store.RowKey(row))) != owner {
			rest = row
		}
	}
	ask := func(row limiter.Row) error {
		_, err := store.Take(within(t, 200*time.Millisecond), draw(storetest.Draw(row, "l", small, 1)))
		return err
	}
	for _, row := range []limiter.Row{lost, rest} {
		if err := ask(row); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range cluster.Nodes { // else one dead shard is everybody's
		if err := patient(t, n.URL).ConfigSet(context.Background(), "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Fatal(err)
		}
	}
	owner.Kill()
	marked := false
	eventually(t, "the replica to take over", func() bool {
		if err := ask(rest); err != nil && !errors.Is(err, limiter.ErrShard) {
			t.Fatalf("a shard that lives failed: %v", err) // CLUSTERDOWN would be the whole
		}
		err := ask(lost)
		marked = marked || errors.Is(err, limiter.ErrShard)
		return err == nil
	})
	if !marked {
		t.Error("no failure of the dead shard was told as its own")
	}
}
