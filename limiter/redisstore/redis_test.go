package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
	"github.com/headgate/headgate/policy"
)

// hourly has no refill worth speaking of within a test.
var hourly = policy.Numbers{Tokens: 1, Period: 3_600_000_000, Burst: 100}

func TestStore_GoesByRedisClock(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := r.client.Time(context.Background()).Val().UnixMicro()
	out := take(t, r.real, storetest.Draw(tenant, "l", hourly, 1))
	after := r.client.Time(context.Background()).Val().UnixMicro()
	if out.NowMicros < before || out.NowMicros > after {
		t.Errorf("decided at %d, want between %d and %d", out.NowMicros, before, after)
	}
}

// everyKeyExpires wants a TTL on each key.
func (r rig) everyKeyExpires(t testing.TB) {
	t.Helper()
	keys := r.client.Scan(context.Background(), 0, "*", 1000).Iterator()
	for keys.Next(context.Background()) {
		if ttl := r.ttl(t, keys.Val()); ttl < 0 {
			t.Errorf("%s has no TTL", keys.Val())
		}
	}
	if err := keys.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestLimiter_R032_AKeyWithoutTTLIsMendedOnTouch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := r.client.Time(context.Background()).Val().UnixMicro()
	fast := policy.Numbers{Tokens: 1, Period: 200_000, Burst: 1}
	r.plant(t, "\x01"+record(fast, 0, now), 0)
	out := take(t, r.real, storetest.Draw(tenant, "l", fast, 1))
	if !out.Admitted { // unless the machine is so slow that the bucket refilled
		r.everyKeyExpires(t)
		if ttl := r.ttl(t, r.row()); ttl <= 0 || ttl > 1300*time.Millisecond {
			t.Errorf("TTL %v after a refusal, want at most 200 ms and 1 s", ttl)
		}
	}
	r.plant(t, "999", 0)
	if out := take(t, r.real, storetest.Draw(tenant, "l", fast, 1)); !out.Admitted {
		t.Errorf("a planted counter: %+v", out)
	}
	r.everyKeyExpires(t)
}

func TestLimiter_R032_LeasesWithoutTTLAreMendedByRefusalsToo(t *testing.T) {
	t.Parallel()
	ctx, d := context.Background(), everything("lease-of-sixteen-0")
	for touch, refuse := range map[string]func(s *redisstore.Store, d *limiter.Draw) (held bool){
		"a decision": func(s *redisstore.Store, d *limiter.Draw) bool {
			out, err := s.Take(ctx, d)
			return err != nil || out.Admitted
		},
		"a renewal": func(s *redisstore.Store, d *limiter.Draw) bool {
			held, err := s.Renew(ctx, []limiter.Lease{d.Slots[0].Held()})
			return err != nil || held[0]
		},
	} {
		r := newRig(t)
		key := r.real.SlotKey(d.Slots[0].Held())
		until := r.client.Time(ctx).Val().Add(time.Minute).UnixMicro()
		for i := range d.Slots[0].Max {
			r.client.ZAdd(ctx, key, redis.Z{Score: float64(until), Member: fmt.Sprint("lease-of-sixteen-", i+1)})
		}
		if refuse(r.real, d) {
			t.Fatalf("%s: there is no place", touch)
		}
		if ttl := r.ttl(t, key); ttl <= 0 || ttl > 61*time.Second {
			t.Errorf("%s: TTL %v, want a minute and 1 s", touch, ttl)
		}
	}
}

func TestLimiter_R032_ARowInTheFutureIsMendedOnTouch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := r.client.Time(context.Background()).Val().UnixMicro()
	r.plant(t, "\x01"+record(hourly, 0, now+3_600_000_000), time.Hour)
	out := take(t, r.real, storetest.Draw(tenant, "l", hourly, 1))
	if out.Admitted || out.Levels[0].WaitMicros != hourly.Period {
		t.Fatalf("%+v, want a wait of one token's time", out)
	}
	if got, want := r.value(t), "\x02"+short(hourly, 0, out.NowMicros); got != want {
		t.Errorf("row %x after a refusal, want %x", got, want)
	}
}

func TestLimiter_R034_KeysLiveUntilFullAndASecond(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, period := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 31 * 24 * time.Hour} {
		row := storetest.Tenant("ten_" + period.String())
		n := rate(t, 10, period, 10)
		out := take(t, r.real, storetest.Draw(row, "l", n, 10))
		full := time.Duration(limiter.UntilFull(out.Levels[0].Units, n)) * time.Microsecond
		ttl := r.ttl(t, r.real.RowKey(row))
		if ttl > full+1001*time.Millisecond || ttl < full-5*time.Second {
			t.Errorf("%v: TTL %v, full in %v", period, ttl, full)
		}
	}
}

func TestLimiter_R034_EveryWriteSetsTheTTLAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	take(t, r.real, storetest.Draw(tenant, "l", hourly, 1))
	take(t, r.real, storetest.Draw(tenant, "l", hourly, 49))
	if ttl := r.ttl(t, r.row()); ttl < 50*time.Hour-time.Minute || ttl > 50*time.Hour+2*time.Second {
		t.Errorf("TTL %v with 50 of 100 left, want 50 h", ttl)
	}
	lower := policy.Numbers{Tokens: 1, Period: hourly.Period, Burst: 60}
	if take(t, r.real, storetest.Draw(tenant, "l", lower, 60)).Admitted {
		t.Fatal("admitted 60 of 50")
	}
	if ttl := r.ttl(t, r.row()); ttl < 10*time.Hour-time.Minute || ttl > 10*time.Hour+2*time.Second {
		t.Errorf("TTL %v with 50 of 60 left, want 10 h", ttl)
	}
}

func TestLimiter_R034_TheSlowestBucketOfARowKeepsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	take(t, r.real, storetest.Draw(tenant, "slow", hourly, 10))
	take(t, r.real, storetest.Draw(tenant, "fast", small, 1))
	if ttl := r.ttl(t, r.row()); ttl < 10*time.Hour-time.Minute || ttl > 10*time.Hour+2*time.Second {
		t.Errorf("TTL %v, want 10 h", ttl)
	}
}

// stores are gateways' connections to one Redis.
func stores(t testing.TB, url string, n int) []*redisstore.Store {
	t.Helper()
	all := make([]*redisstore.Store, n)
	for i := range all {
		all[i] = redisstore.New(patient(t, url), options)
	}
	return all
}

// crowd makes calls from many goroutines over the stores and counts.
func crowd(t testing.TB, on []*redisstore.Store, callers, each int, n policy.Numbers) (admitted, refused int64) {
	t.Helper()
	var yes, no atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range each {
				out, err := on[i%len(on)].Take(context.Background(), &limiter.Draw{Charges: []limiter.Charge{storetest.Draw(tenant, "l", n, 1)}})
				switch {
				case err != nil:
					t.Error(err)
				case out.Admitted:
					yes.Add(1)
				default:
					no.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return yes.Load(), no.Load()
}

func TestLimiter_R021_ABurstAtOneInstantIsCountedCallByCall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for run := range 20 {
		if err := r.client.FlushDB(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		var nodes []*redisstore.Store
		for range 3 {
			nodes = append(nodes, redisstore.NewVirtual(r.client, options, r.clock.Now))
		}
		if yes, no := crowd(t, nodes, 200, 5, hourly); yes != 100 || no != 900 {
			t.Errorf("run %d: %d admitted, %d refused; want 100, 900", run, yes, no)
		}
	}
}

var evalsha = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`)

func TestLimiter_R022_AHotKeyRefusesNobodyWithBudgetLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := rate(t, 10_000, time.Second, 10_000)
	nodes := stores(t, r.server.URL, 3)
	if yes, no := crowd(t, nodes, 500, 18, n); yes != 9000 || no != 0 {
		t.Errorf("%d admitted, %d refused; want 9000, 0", yes, no)
	}
	match := evalsha.FindStringSubmatch(r.client.Info(context.Background(), "commandstats").Val())
	if match == nil {
		t.Fatal("no script calls counted")
	}
	if calls, _ := strconv.Atoi(match[1]); calls > 9000+3*4 { // and one more a writer that met NOSCRIPT
		t.Errorf("%d script calls for 9000 decisions", calls)
	}
}

// TestStore_I01_CrowdNeverGetsMoreThanBurstPlusRefill is the bound without
// slack, over several gateways and by Redis' time.
func TestStore_I01_CrowdNeverGetsMoreThanBurstPlusRefill(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := rate(t, 2000, time.Second, 50)
	nodes := stores(t, r.server.URL, 4)
	first := r.client.Time(context.Background()).Val()
	yes, _ := crowd(t, nodes, 40, 100, n)
	took := r.client.Time(context.Background()).Val().Sub(first)
	if bound := 50 + int64(took)*2000/int64(time.Second); yes > bound || yes < 50 {
		t.Errorf("%d admitted in %v, want 50 to %d", yes, took, bound)
	}
	r.everyKeyExpires(t)
}

func TestLimiter_R035_AFlushedScriptIsLoadedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	nodes := stores(t, r.server.URL, 3)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				r.client.ScriptFlush(context.Background())
			}
		}
	})
	yes, no := crowd(t, nodes, 6, 200, hourly)
	close(done)
	wg.Wait()
	if yes != 100 || no != 1100 {
		t.Errorf("%d admitted, %d refused; want 100, 1100", yes, no)
	}
}

func TestLimiter_R036_ALostReplyIsChargedOnceAndNeverReplayed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	between := newProxy(t, r.server.Addr)
	opts, err := redisstore.ClientOptions("redis://" + between.addr + "/0")
	if err != nil {
		t.Fatal(err)
	}
	opts.MinIdleConns = 0 // the one that was pinged is the one that is used
	client := newClient(t, opts)
	store := redisstore.New(client, options)
	n := policy.Numbers{Tokens: 1, Period: 3_600_000_000, Burst: 1000}
	left := func() int64 { // without spending: nobody draws more than is there
		out := take(t, r.real, storetest.Draw(tenant, "l", n, n.Burst))
		return out.Levels[0].Remaining(n)
	}
	take(t, r.real, storetest.Draw(tenant, "l", n, 1))
	for round := range 20 {
		eventually(t, "a connection", func() bool { return store.Ping(within(t, time.Second)) == nil })
		before := left()
		between.mute(true)
		_, err := store.Take(within(t, 30*time.Millisecond), &limiter.Draw{Charges: []limiter.Charge{storetest.Draw(tenant, "l", n, 1)}})
		between.mute(false)
		if !errors.Is(err, limiter.ErrStore) || redisstore.Cause(err) != "hang" {
			t.Fatalf("round %d: %v", round, err)
		}
		eventually(t, "the charge", func() bool { return left() < before })
		if got := before - left(); got != 1 {
			t.Fatalf("round %d: charged %d times", round, got)
		}
	}
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually asks until it is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	again, late := time.NewTicker(time.Millisecond), time.After(20*time.Second)
	defer again.Stop()
	for !so() {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestPing_FindsARedisThatCannotServe: each of these answers a PING.
func TestPing_FindsARedisThatCannotServe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cause string
		spoil func(context.Context, *redis.Client) error
	}{
		{"readonly", func(ctx context.Context, c *redis.Client) error {
			return c.ReplicaOf(ctx, "127.0.0.1", "1").Err()
		}},
		{"oom", func(ctx context.Context, c *redis.Client) error { return c.ConfigSet(ctx, "maxmemory", "1").Err() }},
		{"noreplicas", func(ctx context.Context, c *redis.Client) error {
			return c.ConfigSet(ctx, "min-replicas-to-write", "1").Err()
		}},
		{"auth", func(ctx context.Context, c *redis.Client) error {
			return c.Do(ctx, "ACL", "SETUSER", "default", "-evalsha").Err()
		}},
		{"wrongtype", func(ctx context.Context, c *redis.Client) error {
			return c.LPush(ctx, redisstore.New(c, options).ProbeKey(), "x").Err()
		}},
	} {
		t.Run(c.cause, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if err := r.real.Ping(context.Background()); err != nil {
				t.Fatal(err)
			}
			if c.cause == "wrongtype" {
				r.client.FlushDB(context.Background())
			}
			if err := c.spoil(context.Background(), r.client); err != nil {
				t.Fatal(err)
			}
			if err := r.real.Ping(context.Background()); redisstore.Cause(err) != c.cause {
				t.Errorf("ping: %v (%s), want %s", err, redisstore.Cause(err), c.cause)
			}
			if c.cause == "wrongtype" {
				return
			}
			_, err := r.real.Take(context.Background(), one("l"))
			if redisstore.Cause(err) != c.cause {
				t.Errorf("take: %v (%s), want %s", err, redisstore.Cause(err), c.cause)
			}
		})
	}
}
