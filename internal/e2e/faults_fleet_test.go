package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
)

// TestFleet_R15_OneCutOffGatewayIsAloneWithItsShare cuts one of three gateways
// off from Redis, under load.
func TestFleet_R15_OneCutOffGatewayIsAloneWithItsShare(t *testing.T) {
	t.Parallel()
	const n, b, r = 3, 300, 90
	server := testkit.Redis(t)
	proxy := testkit.Proxy(t, server.Addr)
	f := NewFleet(t, server.URL, hotPolicy(n, bucket{b, r}, bucket{b, r}))
	f.add(proxy.URL, unhurried)
	f.Start(n-1, unhurried)
	exactly, shared := f.Crowd(2, "/exact"), f.Crowd(2, "/shared")
	pause(t.Context(), time.Second)
	proxy.Cut()
	cut := exactly.now()
	pause(t.Context(), sized(2*time.Second, 20*time.Second))
	mended := exactly.now()
	proxy.Pass()
	eventually(t, time.Minute, "the gateway decides by Redis again", func() error { return decided(f.Gateways[0], f.Key) })

	s := exactly.done(t)
	s.keepsTo(t, "/exact", b, r, 0)
	s.getsItsShare(t, "/exact", exactShare, b, r, n)
	alone, others := s.by(f.Gateways[0]), s.by(f.Gateways[1:]...)
	if len(alone.of(unavailable)) == 0 || len(others.of(unavailable)) > 0 {
		t.Errorf("cut off: %v; the others: %v", alone.counts(), others.counts())
	}
	if k := len(alone.of(admitted).within(cut, mended)); k > 0 {
		t.Errorf("the one that was cut off admitted %d on a closed route", k)
	}
	s = shared.done(t)
	s.keepsTo(t, "/shared", b, r, 0)
	if k := len(s.by(f.Gateways[1:]...).of(admittedHere)); k > 0 {
		t.Errorf("gateways with Redis admitted %d without it", k)
	}
	s.by(f.Gateways[0]).keepsToShares(t, b/n, r/n)
}

// TestFleet_R11_I05_AFlushGivesBackOneBurstAndNoMore flushes Redis under load.
// What a console does about it is done by hand.
func TestFleet_R11_I05_AFlushGivesBackOneBurstAndNoMore(t *testing.T) {
	t.Parallel()
	const b, r = 200, 100
	f := NewFleet(t, testkit.RedisURL(t), hotPolicy(3, bucket{b, r}, bucket{b, r}))
	f.Start(3, unhurried)
	flushes := sized(1, 5)
	c := f.Crowd(2, "/exact")
	for range flushes {
		pause(t.Context(), time.Second)
		if err := f.wire.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		f.Refill()
	}
	for _, m := range f.Gateways {
		eventually(t, time.Minute, "a gateway decides again", func() error { return decided(m, f.Key) })
	}
	pause(t.Context(), time.Second)
	c.done(t).keepsTo(t, "/exact", b, r, flushes*b)
	f.everythingExpires(t)
}

// everythingExpires holds that no key of the limiter's is without an end.
func (f *Fleet) everythingExpires(t *testing.T) {
	t.Helper()
	keys, err := f.wire.Keys(t.Context(), "hg:l:*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, k := range keys {
		if d := f.wire.PTTL(t.Context(), k).Val(); d == -1 || d > 48*time.Hour {
			t.Errorf("%q expires in %v", k, d)
		}
	}
}

// TestFleet_R06_AnIsolatedPrimaryStopsAdmitting takes the replicas away from a
// primary, as a split of the network does. It must not go on by itself: the
// other side may have chosen another one.
func TestFleet_R06_AnIsolatedPrimaryStopsAdmitting(t *testing.T) {
	t.Parallel()
	const b, r = 300, 100
	set := testkit.Sentinel(t, testkit.WithMinReplicas())
	f := NewFleet(t, set.URL(), hotPolicy(2, bucket{b, r}, bucket{b, r}))
	f.Start(2, unhurried)
	c := f.Crowd(2, "/exact")
	replicas := set.Replicas()
	split := c.now()
	for _, n := range replicas {
		n.Pause()
	}
	eventually(t, time.Minute, "the primary refuses to write", func() error {
		for _, m := range f.Gateways {
			if m.metric("headgate_store_errors_total", `cause="noreplicas"`) == 0 {
				return errors.New(errorsOf(m))
			}
		}
		return nil
	})
	stopped := c.now()
	took(t, "an isolated primary admits nothing", stopped-split, 3*time.Second)
	pause(t.Context(), sized(500*time.Millisecond, 8*time.Second))
	joined := c.now()
	for _, n := range replicas {
		n.Resume()
	}
	for _, m := range f.Gateways {
		eventually(t, time.Minute, "decided by Redis again", func() error { return decided(m, f.Key) })
	}
	s := c.done(t)
	s.keepsTo(t, "/exact", b, r, 0)
	if n := len(s.of(admitted).within(stopped, joined)); n > 0 {
		t.Errorf("%d were admitted by a primary without replicas", n)
	}
}

// TestFleet_R040_SixHundredDegradedDecisionsAreCountedAsSixHundred stops Redis
// and makes 600 calls of an open route.
func TestFleet_R040_SixHundredDegradedDecisionsAreCountedAsSixHundred(t *testing.T) {
	t.Parallel()
	server := testkit.Redis(t)
	f := NewFleet(t, server.URL, outagePolicy)
	f.Start(1, unhurried)
	m := f.Gateways[0]
	server.Kill()
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 150 {
				if a := m.Check(f.Key, "/unlimited"); a.Status != http.StatusOK || a.Header.Get("RateLimit") != "" {
					t.Errorf("status %d, RateLimit %q", a.Status, a.Header.Get("RateLimit"))
				}
			}
		})
	}
	callers.Wait()
	if n := m.metric("headgate_degraded_total", `route="unlimited"`); n != 600 {
		t.Errorf("%v of 600 degraded decisions are counted", n)
	}
	if list := incidentsOf(t, m); len(list) != 1 || list[0].End != nil || list[0].Cause != "down" || list[0].Admitted != 600 {
		t.Errorf("incidents: %+v, want one of 600 admissions that lasts", list)
	}
	if a := m.Admin("/readyz"); a.Status != http.StatusOK || !strings.Contains(string(a.Body), "down") {
		t.Errorf("/readyz: status %d: %s", a.Status, a.Body)
	}
}

// TestFleet_R049_ARememberedRefusalEndsWithANewLimit publishes a faster limit
// while the gateways remember refusals of hours.
func TestFleet_R049_ARememberedRefusalEndsWithANewLimit(t *testing.T) {
	t.Parallel()
	slow := strings.ReplaceAll(hotPolicy(2, bucket{10, 1}, bucket{10, 1}), "rate: 1/second", "rate: 1/hour")
	f := NewFleet(t, testkit.RedisURL(t), slow)
	f.Start(2, unhurried)
	for _, m := range f.Gateways {
		eventually(t, time.Minute, "refused from memory", func() error {
			a := m.Check(f.Key, "/exact")
			if a.Status != http.StatusTooManyRequests || m.metric("headgate_cached_refusals_total") == 0 {
				return fmt.Errorf("status %d", a.Status)
			}
			return nil
		})
	}
	f.Publish(2, hotPolicy(2, bucket{10, 100}, bucket{10, 100}))
	published := time.Now()
	for _, m := range f.Gateways {
		eventually(t, 30*time.Second, "the new limit admits", func() error {
			if a := m.Check(f.Key, "/exact"); a.Status != http.StatusOK {
				return fmt.Errorf("status %d: %s", a.Status, a.Body)
			}
			return nil
		})
	}
	took(t, "a faster limit admits", time.Since(published), time.Second)
}

// TestFleet_R050_AGatewayThatStartsWithoutRedisSaysSoAndWaits starts a gateway
// that has never seen a policy, with Redis away.
func TestFleet_R050_AGatewayThatStartsWithoutRedisSaysSoAndWaits(t *testing.T) {
	t.Parallel()
	server := testkit.Redis(t)
	proxy := testkit.Proxy(t, server.Addr)
	f := NewFleet(t, server.URL, outagePolicy)
	proxy.Cut()
	m := f.add(proxy.URL, unhurried)
	eventually(t, time.Minute, "the gateway listens", func() error {
		raw, err := os.ReadFile(m.addresses)
		if err != nil {
			return err
		}
		at := &doors{}
		m.at.Store(at)
		return json.Unmarshal(raw, at)
	})
	if a := m.Admin("/healthz"); a.Status != http.StatusOK {
		t.Errorf("/healthz: status %d", a.Status)
	}
	if a := m.Admin("/readyz"); a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "no-policy") {
		t.Errorf("/readyz: status %d: %s", a.Status, a.Body)
	}
	for _, path := range []string{"/x", "/open", "/unlimited"} {
		if a := m.Check(f.Key, path); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s without a policy: status %d: %s", path, a.Status, a.Body)
		}
	}
	proxy.Pass()
	m.WaitReady()
	m.warm(f.Key)
}

// TestFleet_R051_R039_PublishingLeaksNothing publishes version after version.
func TestFleet_R051_R039_PublishingLeaksNothing(t *testing.T) {
	t.Parallel()
	server := testkit.Redis(t)
	f := NewFleet(t, server.URL, hotPolicy(2, bucket{10, 10}, bucket{10, 10}))
	f.Start(1, unhurried)
	m := f.Gateways[0]
	inForce := func(version int) {
		eventually(t, time.Minute, "a version is in force", func() error {
			if v := m.metric("headgate_policy_version"); v != float64(version) {
				return fmt.Errorf("version %v", v)
			}
			return nil
		})
	}
	measure := func() (goroutines, files, memory float64) {
		return m.metric("go_goroutines"), m.metric("process_open_fds"), m.metric("process_resident_memory_bytes")
	}
	last := 5
	publish := func(until int) {
		for v := last; v <= until; v++ {
			f.Publish(int64(v), hotPolicy(2, bucket{10, 10 + v}, bucket{10, 10 + v}))
			inForce(v)
			m.warm(f.Key)
		}
		last = until + 1
	}
	publish(10)
	goroutines, files, memory := measure()
	publish(sized(24, 150))
	if g, n, b := measure(); g > goroutines+20 || n > files+10 || b > memory+64<<20 {
		t.Errorf("goroutines %v, files %v, memory %v; before: %v, %v, %v", g, n, b, goroutines, files, memory)
	}
	c := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = c.Close() }()
	info, err := c.Info(t.Context(), "clients").Result()
	if n := infoNumber(info, "connected_clients"); err != nil || n > 40 {
		t.Errorf("%d connections to Redis, %v", n, err)
	}
}
