package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy"
)

// next is a good version that nobody has published.
func (f *Fleet) next(version int64) policy.SignedPolicy {
	return policy.SignPolicy(f.private, fleetDeployment, version, f.published.Digest, f.published.Body, time.Now())
}

// offer writes a version into Redis as somebody could who can write there.
func (f *Fleet) offer(p policy.SignedPolicy) {
	f.t.Helper()
	if _, err := f.publisher.PublishPolicy(f.t.Context(), p); err != nil {
		f.t.Fatal(err)
	}
}

// do is a command by somebody with access to Redis.
func (f *Fleet) do(args ...any) {
	f.t.Helper()
	o, _, err := redisstore.ParseURL(f.redisURL)
	if err != nil {
		f.t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: o.Addrs[0], MaxRetries: -1, PoolSize: 1, ReadTimeout: time.Minute})
	defer func() { _ = c.Close() }()
	if err := c.Do(f.t.Context(), args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
		f.t.Fatalf("redis %v: %v", args[0], err)
	}
}

// ring forges n messages on the bell.
func (f *Fleet) ring(n int) {
	f.t.Helper()
	for done := 0; done < n; done += 1000 {
		pipe := f.wire.Pipeline()
		for i := range 1000 {
			pipe.Publish(f.t.Context(), "hg:{policy}:bell", fmt.Sprintf("%s %d", []string{"policy", "directory"}[i%2], i))
		}
		if _, err := pipe.Exec(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
}

// said counts what the gateway's log has said.
func (m *Member) said(t *testing.T, text string) int {
	t.Helper()
	if text == "" {
		return 0
	}
	raw, err := os.ReadFile(m.Log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(raw), text)
}

// TestGateway_G07_AColdStartWithoutRedisAndConsole starts a gateway from its copy
// while there is neither Redis nor a console, and measures until it decides. A
// copy whose signature is wrong, and none at all, refuse everything.
func TestGateway_G07_AColdStartWithoutRedisAndConsole(t *testing.T) {
	t.Parallel()
	server := testkit.Redis(t)
	f := NewFleet(t, server.URL, outagePolicy)
	token := f.dir + "/token"
	if err := os.WriteFile(token, []byte("shared-by-the-gateways-0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	alone := []string{"--console-url=http://127.0.0.1:9", "--gateway-token-file=" + token} // nobody listens there
	f.Start(1, alone...)
	m := f.Gateways[0]
	m.Term() // what it knows of keys is on disk
	server.Kill()
	var took3 []time.Duration
	for range 3 {
		from := time.Now()
		m.launch()
		m.WaitReady()
		a := m.Check(f.Key, "/open")
		took3 = append(took3, time.Since(from))
		if a.Status != http.StatusOK {
			t.Errorf("an open route: status %d: %s", a.Status, a.Body)
		}
		if a := m.Check(f.Key, "/closed"); a.Status != http.StatusServiceUnavailable {
			t.Errorf("a closed route: status %d", a.Status)
		}
		m.Kill()
	}
	took(t, "a cold start without Redis and console, from exec to the first decision", slices.Min(took3), 500*time.Millisecond)

	forged := f.dir + "/gateway-1/state/policy.json"
	raw, err := os.ReadFile(forged)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(forged, []byte(strings.Replace(string(raw), `"version":1`, `"version":2`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	m.launch()
	m.refuses(t)
	m.Kill()
	empty := f.add(server.URL, alone...)
	empty.refuses(t)
}

// refuses holds that the gateway is up, is not ready and admits nothing.
func (m *Member) refuses(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "the gateway is up", func() error {
		if err := m.located(); err != nil {
			return err
		}
		if a := m.Admin("/healthz"); a.Status != http.StatusOK {
			return fmt.Errorf("status %d", a.Status)
		}
		return nil
	})
	if a := m.Admin("/readyz"); a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "no-policy") {
		t.Errorf("/readyz: status %d: %s", a.Status, a.Body)
	}
	for _, path := range []string{"/open", "/unlimited", "/closed"} {
		if a := m.Check(m.f.Key, path); a.Status != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d: %s", path, a.Status, a.Body)
		}
	}
}

// TestFleet_G11_AStormOfPublicationsCostsDecisionsNothing publishes a thousand
// versions a minute while gateways decide, and measures decisions before and
// during. Versions are skipped, and the last one is enforced.
func TestFleet_G11_AStormOfPublicationsCostsDecisionsNothing(t *testing.T) {
	t.Parallel()
	const gateways, gap = 3, 60 * time.Millisecond
	f := NewFleet(t, testkit.RedisURL(t), hotPolicy(gateways, bucket{1_000_000, 100_000}, bucket{1000, 100}))
	f.Start(gateways, unhurried)
	during := sized(4*time.Second, 60*time.Second)
	steady := f.decisions(during)
	storm := make(chan []time.Duration, 1)
	go func() { storm <- f.decisions(during) }()
	before := f.taken(t)
	version := int64(1)
	tick := time.NewTicker(gap)
	defer tick.Stop()
	var stormy []time.Duration
	for stormy == nil {
		select {
		case stormy = <-storm:
		case <-tick.C:
			version++
			f.Publish(version, hotPolicy(gateways, bucket{1_000_000, 100_000 + int(version)}, bucket{1000, 100}))
		}
	}
	for _, m := range f.Gateways {
		eventually(t, time.Minute, "the last version is enforced", func() error {
			if v := m.metric("headgate_policy_version"); v != float64(version) {
				return fmt.Errorf("v%v of v%d", v, version)
			}
			return nil
		})
	}
	taken := f.taken(t) - before
	a, b := p99(steady), p99(stormy)
	t.Logf("%d decisions without and %d with %d publications in %v: p99 %v and %v (%.2f times); %d versions were taken by %d gateways",
		len(steady), len(stormy), version-1, during, a, b, float64(b)/float64(a), taken, gateways)
	if strict() && float64(b) > 1.5*float64(a) {
		t.Errorf("p99 is %v in the storm, more than 1.5 times %v", b, a)
	}
	if most := gateways * int(4+(during+time.Second)/(500*time.Millisecond)); taken > most {
		t.Errorf("%d versions were taken, more than %d", taken, most)
	}
}

// taken is how many versions the gateways have taken, in all.
func (f *Fleet) taken(t *testing.T) (n int) {
	t.Helper()
	for _, m := range f.Gateways {
		n += m.said(t, `"policy in force"`)
	}
	return n
}

// decisions asks all gateways in turn for a while and returns how long each took.
func (f *Fleet) decisions(d time.Duration) (all []time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		m := f.Gateways[len(all)%len(f.Gateways)]
		a := m.Check(f.Key, "/exact")
		if a.Status != http.StatusOK {
			f.t.Errorf("status %d: %s", a.Status, a.Body)
		}
		all = append(all, a.Took)
	}
	return all
}

func p99(d []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[len(s)*99/100]
}
