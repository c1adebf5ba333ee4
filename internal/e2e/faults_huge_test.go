package e2e_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
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

// place is one that a gateway reads in Redis.
type place struct {
	name string
	says string // in the gateway's log
	do   func()
	also func() // what makes the gateway read it; nil where it does so by itself
}

// hugePlaces fills each place that a gateway reads with values of so many bytes;
// stranger is a key whose record no gateway has read before.
func (f *Fleet) hugePlaces(m *Member, huge int, kid, stranger string) []place {
	next := f.next(2)
	// Whoever can write to Redis cannot sign: a gateway that reads the offer before it
	// has grown must not take it either.
	next.Signature = make([]byte, ed25519.SignatureSize)
	grow := func(key string) { f.do("SETRANGE", key, huge-1, "x") }
	field := func(key, name string) {
		f.do("EVAL", "local s = '1' while #s < tonumber(ARGV[2]) do s = s .. s end redis.call('HSET', KEYS[1], ARGV[1], s)", 1, key, name, huge)
	}
	asks := func() { m.Check(stranger, "/open") }
	return []place{
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
	}
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
	var most int64
	for _, c := range f.hugePlaces(m, huge, kid, stranger) {
		said := m.said(t, c.says)
		c.do()
		from := time.Now()
		eventually(t, time.Minute, c.name+" is told of", func() error {
			if c.also != nil {
				c.also()
			}
			if c.says != "" && m.said(t, c.says) == said {
				return fmt.Errorf("the log does not say %q again", c.says)
			}
			return nil
		})
		took(t, "the alarm of "+c.name, time.Since(from), 2*time.Second)
		changed, reached := probing(t, m, probes, sized(300, 1500))
		t.Logf("%s: at most %d MiB", c.name, reached>>20)
		most = max(most, reached)
		if changed > 0 {
			t.Errorf("%s: %d decisions changed", c.name, changed)
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
