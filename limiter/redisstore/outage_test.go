package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
	"github.com/headgate/headgate/policy"
)

// What an outage may cost, and how long the tests' outages last.
const (
	budget   = 25 * time.Millisecond
	slack    = 10 * time.Millisecond
	recovery = time.Second
	length   = 2 * time.Second
)

// holds logs a measured time against its bar. Machines that run tests are busy,
// so a missed bar fails the test only when HEADGATE_E2E_STRICT is 1; reaching
// the limit, which means that something hung, always does.
func holds(t *testing.T, what string, took, bar, limit time.Duration) {
	t.Helper()
	t.Logf("%s took %v, the bar is %v", what, took, bar)
	if took > limit || took > bar && os.Getenv("HEADGATE_E2E_STRICT") == "1" {
		t.Errorf("%s took %v, the bar is %v", what, took, bar)
	}
}

// outage is a limiter as the product builds it, on a Redis that can be broken.
type outage struct {
	*limiter.Limiter
	server *testkit.RedisServer
	client *redis.Client
	modes  chan bool
}

func newOutage(t *testing.T) outage {
	t.Helper()
	o := outage{server: testkit.Redis(t), modes: make(chan bool, 100)}
	o.client = clientTo(t, o.server.URL)
	l, err := limiter.New(limiter.Config{
		Store: redisstore.New(o.client, options), OnModeChange: func(d bool) { o.modes <- d },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = l.Run(ctx) }()
	o.Limiter = l
	eventually(t, "a first decision", func() bool { return !o.decide(closed).Degraded })
	return o
}

var open = policy.StoreFailure{Mode: policy.FailOpen, Fallback: &policy.Fallback{Unlimited: true}}

func (o outage) decide(fail policy.StoreFailure) limiter.Decision {
	n := policy.Numbers{Tokens: 1, Period: 1000, Burst: 100_000}
	return o.Decide(context.Background(), limiter.Request{
		Route: "r", Identity: "ten_a", Fail: fail, Draw: limiter.Draw{Charges: []limiter.Charge{storetest.Draw(tenant, "l", n, 1)}},
	})
}

// load makes requests from callers until told to stop. It returns the longest
// time that a decision took, and the most connections there were.
func (o outage) load(t *testing.T, callers int, stop <-chan struct{}) (longest time.Duration, connections uint32) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			fail, wantAllowed := open, true
			if i%2 == 1 {
				fail, wantAllowed = closed, false
			}
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				start := time.Now()
				d := o.decide(fail)
				took := time.Since(start)
				if d.Degraded && d.Allowed != wantAllowed {
					t.Errorf("degraded: %+v", d)
				}
				mu.Lock()
				longest, connections = max(longest, took), max(connections, o.client.PoolStats().TotalConns)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return longest, connections
}

// survives breaks Redis under load, mends it, and wants bounded decisions, a
// bounded number of connections and a prompt return.
func (o outage) survives(t *testing.T, spoil, mend func()) {
	t.Helper()
	stop := make(chan struct{})
	var longest time.Duration
	var connections uint32
	var wg sync.WaitGroup
	wg.Go(func() { longest, connections = o.load(t, 20, stop) })
	spoil()
	eventually(t, "the breaker to open", o.Degraded)
	time.Sleep(length) //nolint:forbidigo // the outage lasts; there is nothing to wait for
	mend()
	back := time.Now()
	eventually(t, "a normal decision", func() bool { return !o.decide(closed).Degraded })
	took := time.Since(back)
	close(stop)
	wg.Wait()
	holds(t, "the return to normal", took, recovery, 20*time.Second)
	holds(t, "the slowest decision", longest, budget+slack, length*3/4)
	if connections > 16 {
		t.Errorf("%d connections, want at most 16", connections)
	}
	if down := <-o.modes; !down {
		t.Error("the outage was not told")
	}
}

func TestLimiter_R038_AHangingRedisMeansTheFailModeWithinTheBudget(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	o.survives(t, o.server.Pause, o.server.Resume)
}

// TestLimiter_I06_AConnectionThatIsNeverMadeCostsNoMoreThanTheBudget: a host that is gone
// refuses nothing, so dialling lasts as long as it may, which is more than a decision.
func TestLimiter_I06_AConnectionThatIsNeverMadeCostsNoMoreThanTheBudget(t *testing.T) {
	t.Parallel()
	s, err := redisstore.Open("redis://"+silentAddress(t), redisstore.Options{Budget: 30 * time.Second}) // and so do dials
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	l, err := limiter.New(limiter.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		start := time.Now()
		if d := (outage{Limiter: l}).decide(closed); !d.Degraded {
			t.Errorf("%+v", d)
		}
		holds(t, "a decision", time.Since(start), budget+slack, 20*time.Second)
	}
}

// silentAddress is where nobody answers: the queue of connections is full.
func silentAddress(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 8 {
		c, err := net.DialTimeout("tcp", address, 300*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("connections are still being made")
	return ""
}

func TestLimiter_R039_ADeadRedisCostsFewConnectionsAndComesBack(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	o.survives(t, o.server.Kill, o.server.Start)
}

// TestLimiter_R038_AnOpenBreakerCostsNothing: while Redis hangs and the breaker
// is open, a decision takes no time.
func TestLimiter_R038_AnOpenBreakerCostsNothing(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	o.server.Pause()
	defer o.server.Resume()
	eventually(t, "the breaker to open", func() bool { o.decide(closed); return o.Degraded() })
	start, calls := time.Now(), 10_000
	for range calls {
		if !o.decide(open).Allowed {
			t.Fatal("an open route refused")
		}
	}
	holds(t, "a decision without Redis", time.Since(start)/time.Duration(calls), 10*time.Microsecond, time.Millisecond)
}

// TestStore_R20_LateRepliesNeverAnswerAnotherRequest: one tenant has nothing
// left and one has plenty; with replies that come after their request has given
// up, no decision of the one is ever told to the other.
func TestStore_R20_I15_LateRepliesNeverAnswerAnotherRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	between := newProxy(t, r.server.Addr)
	store := redisstore.New(clientTo(t, "redis://"+between.addr+"/0"), options)
	poor, rich := storetest.Tenant("ten_poor"), storetest.Tenant("ten_rich")
	plenty := policy.Numbers{Tokens: 1, Period: 3_600_000_000, Burst: 1_000_000}
	take(t, r.real, storetest.Draw(poor, "l", hourly, hourly.Burst))
	between.slow(func() time.Duration {
		if rand.IntN(4) == 0 {
			return 8 * time.Millisecond
		}
		return 0
	})
	each := 100
	if long() {
		each = 100_000 / 16
	}
	var wg sync.WaitGroup
	var answered, late atomic.Int64
	for i := range 16 {
		wg.Go(func() {
			charge := storetest.Draw(poor, "l", hourly, 1)
			if i%2 == 1 {
				charge = storetest.Draw(rich, "l", plenty, 1)
			}
			for range each {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
				out, err := store.Take(ctx, &limiter.Draw{Charges: []limiter.Charge{charge}})
				cancel()
				switch {
				case err != nil:
					late.Add(1)
				case out.Admitted != (i%2 == 1):
					t.Errorf("caller %d was told %+v", i, out)
				default:
					answered.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if answered.Load() == 0 || late.Load() == 0 {
		t.Errorf("%d answered, %d late: the test says nothing", answered.Load(), late.Load())
	}
}
