package e2e_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
)

// rss is how much memory a process has, in bytes.
func rss(t *testing.T, pid int) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// probe is a request whose decision does not depend on how many there were.
type probe struct {
	key, path string
	status    int
}

// probing asks the gateway one after the other and returns how many were decided
// otherwise, and the most memory that it had meanwhile.
func probing(t *testing.T, m *Member, probes []probe, n int) (changed int, most int64) {
	t.Helper()
	for i := range n {
		p := probes[i%len(probes)]
		if a := m.Check(p.key, p.path); a.Status != p.status {
			if changed++; changed < 4 {
				t.Logf("%s: status %d, want %d: %s", p.path, a.Status, p.status, a.Body)
			}
		}
		if i%100 == 0 {
			most = max(most, rss(t, m.proc.PID()))
		}
	}
	return changed, most
}

// TestGateway_A23_HugeValuesAndForgedBellsChangeNoDecision fills every place that a
// gateway reads with the largest value that Redis takes, and rings the bell a
// hundred thousand times, as somebody could who can write to Redis. No decision
// changes, memory hardly does, and what is wrong is said at once.
func TestGateway_A23_HugeValuesAndForgedBellsChangeNoDecision(t *testing.T) {
	t.Parallel()
	huge := sized(64<<20, 512<<20)
	server := testkit.Redis(t)
	f := NewFleet(t, server.URL, outagePolicy+`
credentials: {headers: [{name: Authorization, scheme: Bearer}], invalid: {per: ip, rate: 1000000/minute, burst: 1000000}}
`)
	stranger := f.tenant("ten_b")
	f.Refill()
	f.Start(1, "--budget=5s") // Redis is busy for a while with values of that size
	m := f.Gateways[0]
	unknown, _, err := apikey.Generate(apikey.Live, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	probes := []probe{{f.Key, "/open", 200}, {f.Key, "/closed", 200}, {unknown.Reveal(), "/closed", 401}, {"hg_live_nonsense", "/open", 401}, {f.Key, "/unlimited", 200}}
	if changed, _ := probing(t, m, probes, sized(2000, 10_000)); changed > 0 {
		t.Fatalf("%d probes are not decided as they should be", changed)
	}
	before := rss(t, m.proc.PID())
	kid := strings.Split(stranger, "_")[2][:12]
	next := f.next(2)
	grow := func(key string) { f.do("SETRANGE", key, huge-1, "x") }
	field := func(key, name string) {
		f.do("EVAL", "local s = '1' while #s < tonumber(ARGV[2]) do s = s .. s end redis.call('HSET', KEYS[1], ARGV[1], s)", 1, key, name, huge)
	}
	asks := func() { m.Check(stranger, "/open") } // of a record that is not cached
	var most int64
	for _, c := range []struct {
		place string
		says  string // in the gateway's log
		do    func()
		also  func()
	}{
		{"policy body", "policy refused", func() { f.offer(next); grow("hg:{policy}:body:2") }, nil},
		{"policy head", "policy refused", func() { f.offer(next); field("hg:{policy}:head", "signature") }, nil},
		{"stamp", "policy stamp", func() { grow("hg:{policy}:stamp") }, nil},
		{"canary record", "canary refused", func() {
			f.do("HSET", "hg:{policy}:canary", "version", 3, "tag", "3-x")
			field("hg:{policy}:canary", "record")
		}, nil},
		{"canary of another type", "canary refused", func() { grow("hg:{policy}:canary") }, nil},
		{"key record", "directory record refused", func() { grow("hg:key:" + kid) }, asks},
		{"bells", "", func() { f.ring(100_000) }, nil},
	} {
		said := m.said(t, c.says)
		c.do()
		from := time.Now()
		eventually(t, time.Minute, c.place+" is told of", func() error {
			if c.also != nil {
				c.also()
			}
			if c.says != "" && m.said(t, c.says) == said {
				return fmt.Errorf("the log does not say %q again", c.says)
			}
			return nil
		})
		took(t, "the alarm of "+c.place, time.Since(from), 2*time.Second)
		changed, reached := probing(t, m, probes, sized(300, 1500))
		t.Logf("%s: at most %d MiB", c.place, reached>>20)
		most = max(most, reached)
		if changed > 0 {
			t.Errorf("%s: %d decisions changed", c.place, changed)
		}
		f.do("DEL", "hg:{policy}:head", "hg:{policy}:body:2", "hg:{policy}:stamp", "hg:{policy}:canary", "hg:key:"+kid)
		f.Refill()
		eventually(t, time.Minute, "all is as it was", func() error {
			if n := m.metric("headgate_policy_nack"); n != 0 {
				return fmt.Errorf("it still refuses")
			}
			return nil
		})
	}
	t.Logf("memory: %d MiB before, at most %d MiB since, with values of %d MiB", before>>20, most>>20, huge>>20)
	// One value that is fetched whole costs more; what the collector leaves of a
	// brief run's beginnings is no pass mark.
	if may := sized[int64](60, 32) << 20; most-before > may {
		t.Errorf("memory grew by %d MiB, more than %d", (most-before)>>20, may>>20)
	}
	if v := m.metric("headgate_policy_version"); v != 1 {
		t.Errorf("v%v is in force", v)
	}
}

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
