package feed

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
)

// hazards is what an inspection finds, as "severity code" in its order.
func (w *wideRig) hazards(t *testing.T) []string {
	t.Helper()
	found, err := w.pub.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, h := range found {
		if h.Server == "" || h.Text == "" || h.Mend == "" {
			t.Errorf("hazard without server, text or mend: %+v", h)
		}
		if word := string(h.Severity) + " " + h.Code; !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}

func wantHazards(t *testing.T, w *wideRig, what string, want ...string) {
	t.Helper()
	if got := w.hazards(t); !slices.Equal(got, want) {
		t.Errorf("%s: found %q, want %q", what, got, want)
	}
}

func TestInspect_R045_NamesWhatEndangersTheCounters(t *testing.T) {
	t.Parallel()
	srv := testkit.Redis(t)
	w := newWideRig(t, srv.URL, "hg")
	c := clientFor(t, srv.URL)
	do := func(args ...any) {
		t.Helper()
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	const alone = "note persistence"
	wantHazards(t, w, "a Redis of our own", alone)
	do("CONFIG", "SET", "appendonly", "yes")
	wantHazards(t, w, "with an append-only file")
	do("CONFIG", "SET", "appendonly", "no")

	do("SET", "hg:l:{3}:t:ten_a", "x")
	do("SET", "hg:l:{3}:t:ten_b", "x", "PX", 60_000)
	do("SET", "other:l:{3}:t:ten_a", "x")
	found, err := w.pub.Inspect(t.Context())
	if err != nil || len(found) != 2 || found[0].Code != policy.HazardNoTTL || !strings.Contains(found[0].Text, `1 keys`) || !strings.Contains(found[0].Text, "hg:l:{3}:t:ten_a") {
		t.Errorf("state without a TTL: %+v, %v", found, err)
	}
	do("PEXPIRE", "hg:l:{3}:t:ten_a", 60_000)
	wantHazards(t, w, "TTL put back", alone)

	do("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	wantHazards(t, w, "a policy that drops counters", "red eviction-policy", alone)
}

func TestInspect_R10_EvictionsShowWhileTheyGrowAndAfterwards(t *testing.T) {
	t.Parallel()
	srv := testkit.Redis(t, "maxmemory-policy allkeys-lru", "maxmemory 4mb")
	w := newWideRig(t, srv.URL, "hg")
	w.hazards(t)
	c := clientFor(t, srv.URL)
	filler := strings.Repeat("x", 10_000)
	evicted := func() bool {
		info, err := c.Info(t.Context(), "stats").Result()
		if err != nil {
			t.Fatal(err)
		}
		return infoField(info, "evicted_keys") != "0"
	}
	for i := 0; !evicted(); i++ {
		for j := range 50 {
			if err := c.Set(t.Context(), fmt.Sprintf("filler:%d:%d", i, j), filler, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := w.hazards(t); !slices.Contains(got, "red evicting") || !slices.Contains(got, "red eviction-policy") || !slices.Contains(got, "amber memory") {
		t.Errorf("while keys are being evicted: %q", got)
	}
	for _, args := range [][]any{{"CONFIG", "SET", "maxmemory", "0"}, {"CONFIG", "SET", "maxmemory-policy", "noeviction"}} {
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	wantHazards(t, w, "afterwards", "amber evicting", "note persistence")
}

func TestInspect_R06_AReplicatedPrimaryNeedsThePair(t *testing.T) {
	t.Parallel()
	s := testkit.Sentinel(t)
	w := newWideRig(t, s.URL(), "hg")
	wantHazards(t, w, "without the pair", "red min-replicas")
	set := func(name, value string) {
		t.Helper()
		c := redis.NewClient(&redis.Options{Addr: s.Primary().Addr})
		defer func() { _ = c.Close() }()
		if err := c.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("min-replicas-to-write", "1")
	wantHazards(t, w, "with Redis' own lag of 10 s", "amber min-replicas")
	set("min-replicas-max-lag", "1")
	wantHazards(t, w, "with the pair")
	set("min-replicas-to-write", "0")
	wantHazards(t, w, "with half of the pair", "red min-replicas")
}

func TestInspect_LooksAtEveryServerOfACluster(t *testing.T) {
	t.Parallel()
	c := testkit.Cluster(t)
	w := newWideRig(t, c.URL(), "hg")
	set := func(n *testkit.Node, args ...any) {
		t.Helper()
		r := redis.NewClient(&redis.Options{Addr: n.Addr})
		defer func() { _ = r.Close() }()
		if err := r.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.Nodes {
		set(n, "CONFIG", "SET", "min-replicas-to-write", "1")
		set(n, "CONFIG", "SET", "min-replicas-max-lag", "1")
	}
	wantHazards(t, w, "a sound Cluster")
	replica := c.Nodes[4]
	set(replica, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	key := "hg:l:{7}:t:ten_a"
	owner := c.Owner(c.Slot(key))
	set(owner, "SET", key, "x")
	set(c.Nodes[1], "SET", keyOn(c, c.Nodes[1]), "x") // a Cluster names a replica once it has copied something
	var found []policy.Hazard
	until(t, newSignals(), "both hazards", func() bool {
		var err error
		if found, err = w.pub.Inspect(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(found) == 2
	})
	if found[0].Server != replica.Addr || found[0].Code != policy.HazardEvictionPolicy || found[1].Server != owner.Addr || found[1].Code != policy.HazardNoTTL {
		t.Errorf("found %+v", found)
	}
	replica.Kill()
	if _, err := w.pub.Inspect(t.Context()); err != nil {
		t.Errorf("with one server gone: %v", err)
	}
}

// keyOn finds a key that lies on a primary.
func keyOn(c *testkit.ClusterSet, n *testkit.Node) string {
	for i := 0; ; i++ {
		if k := fmt.Sprintf("some:%d", i); c.Owner(c.Slot(k)) == n {
			return k
		}
	}
}

func TestInspect_TellsAClockThatIsOffAndAnOldServer(t *testing.T) {
	t.Parallel()
	srv := testkit.Redis(t)
	w := newWideRig(t, srv.URL, "hg")
	w.pub.cfg.Now = func() time.Time { return time.Now().Add(-time.Minute) }
	wantHazards(t, w, "a clock a minute ahead", "amber clock", "note persistence")
	for version, old := range map[string]bool{"6.2.14": true, "5.0": true, "": true, "7.0.0": false, "7.2.4": false, "8.0.1": false, "255.255.255": false} {
		l := &inspection{server: "s", info: "redis_version:" + version + "\r\n"}
		if l.version(); old != (len(l.found) == 1 && l.found[0].Severity == policy.SeverityRed) {
			t.Errorf("version %q: %+v", version, l.found)
		}
	}
	l := &inspection{server: "s", info: "rdb_last_bgsave_status:err\r\n"}
	if l.saving(); len(l.found) != 1 || l.found[0].Code != policy.HazardSaving {
		t.Errorf("a save that failed: %+v", l.found)
	}
	srv.Kill()
	if found, err := w.pub.Inspect(t.Context()); err == nil {
		t.Errorf("nothing answers, and that is no error: %v", found)
	}
}

func TestInspect_GoesThroughAllKeysALookAfterTheOther(t *testing.T) {
	t.Parallel()
	srv := testkit.Redis(t)
	w := newWideRig(t, srv.URL, "hg")
	c := clientFor(t, srv.URL)
	pipe := c.Pipeline()
	for i := range 3 * scanSteps * scanCount {
		pipe.Set(t.Context(), fmt.Sprintf("hg:l:{1}:i:%d", i), "x", time.Hour)
	}
	pipe.Set(t.Context(), "hg:l:{1}:i:forgotten", "x", 0)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	for look := 0; !slices.Contains(w.hazards(t), "red no-ttl"); look++ {
		if look == 6 {
			t.Fatal("not found in six looks")
		}
	}
}
