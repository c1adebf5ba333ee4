package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
)

// huge is the size of a value that nobody must fetch: 512 MiB the long way.
func huge() int64 {
	if os.Getenv("HEADGATE_FAULTS") == "long" {
		return 512 << 20
	}
	return 48 << 20
}

// TestWatcher_A23_TwelveMutationsChangeNothing does to Redis what somebody with
// write access could. The snapshot that requests are decided by stays the very
// same one, and whatever is wrong is said within two seconds.
func TestWatcher_A23_TwelveMutationsChangeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publish(5, 60)
	w := r.named("gw_a", t.TempDir(), often)
	start(t, w.Run)
	w.untilVersion(t, 5)
	before := w.Current()
	next := r.signed(6, 1_000_000)
	flipped := bytes.Clone(next.Body)
	flipped[len(flipped)/3] ^= 4
	embedded := policy.SignPolicy(key('x'), deployment, 6, "", next.Body, time.Now())
	with := func(body []byte) policy.SignedPolicy { c := next; c.Body = body; return c }
	const head, body = "hg:{policy}:head", "hg:{policy}:body:6"
	for _, m := range []struct {
		name string
		code string // of the NACK; "" where nothing is offered
		do   func()
	}{
		{"bit flip", policy.NACKBadDigest, func() { r.writeRaw(with(flipped), nil) }},
		{"another environment's", policy.NACKBadSignature, func() { r.writeRaw(policy.SignPolicy(r.key, "staging", 6, "", next.Body, time.Now()), nil) }},
		{"body of another version", policy.NACKBadDigest, func() { r.writeRaw(with(p.Body), nil) }},
		{"limit of 1e9 under an old signature", policy.NACKBadSignature, func() {
			raised := bytes.ReplaceAll(next.Body, []byte("1000000"), []byte("1000000000"))
			c := with(raised)
			c.Digest = policy.DigestOf(raised)
			r.writeRaw(c, nil)
		}},
		{"deleted", "", func() { r.do("DEL", head, body) }},
		{"wrong type", policy.NACKInvalid, func() { r.do("DEL", head); r.do("SADD", head, "x") }},
		{"a value of many MiB", policy.NACKTooLarge, func() {
			r.writeRaw(next, nil)
			r.do("SETRANGE", body, huge()-1, "x")
		}},
		{"version 2^63", policy.NACKInvalid, func() { r.writeRaw(next, map[string]any{"version": "9223372036854775808"}) }},
		{"a key of its own embedded", policy.NACKBadSignature, func() {
			r.writeRaw(embedded, map[string]any{"key": string(public(key('x'))), "public_key": string(public(key('x')))})
		}},
		{"fields empty", policy.NACKInvalid, func() { r.writeRaw(next, map[string]any{"version": "", "digest": "", "signature": ""}) }},
		{"truncated", policy.NACKBadDigest, func() { r.writeRaw(with(next.Body[:len(next.Body)/2]), nil) }},
		{"ten thousand bells", "", func() {
			r.do("DEL", head)
			pipe := r.client.Pipeline()
			for i := range 10_000 {
				pipe.Publish(t.Context(), "hg:{policy}:bell", fmt.Sprintf("policy %d", i))
			}
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		m.do()
		begin := time.Now()
		if m.code != "" {
			w.untilNACK(t, m.code)
			holds(t, "the alarm of "+m.name, time.Since(begin), 2*time.Second, hung)
		}
		w.untilPolled(t)
		if w.Current() != before {
			t.Fatalf("%s: version %d is in force with %s", m.name, w.Current().Version, w.Current().Digest)
		}
		r.do("DEL", body)
		r.writeRaw(p, nil)
		w.untilNoNACK(t)
	}
}

// TestWatcher_A24_AnOldVersionIsNeverTakenAgain restores version 5, byte for
// byte, where version 9 was: for the replica that runs, for the one that was
// killed and starts again, and for one that is new and finds a fresh stamp.
func TestWatcher_A24_AnOldVersionIsNeverTakenAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	keys := []string{"hg:{policy}:head", "hg:{policy}:body:5"}
	r.publish(5, 60)
	old := map[string]string{}
	for _, k := range keys {
		old[k] = r.client.Dump(t.Context(), k).Val()
	}
	dir := t.TempDir()
	w := r.named("gw_a", dir, often)
	start(t, w.Run)
	for v := int64(6); v <= 9; v++ {
		r.publish(v, 60)
	}
	w.untilVersion(t, 9)
	if err := r.pub.PutStamp(t.Context(), policy.SignStamp(r.key, deployment, 9, policy.DigestOf(document(60)), time.Now().Add(-2*time.Minute))); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		r.do("RESTORE", k, 0, old[k], "REPLACE")
	}
	if n := w.untilNACK(t, policy.NACKWentBack); n.Version != 5 {
		t.Errorf("NACK %+v", n)
	}
	killed := r.named("gw_a", copied(t, dir), rarely) // the files as kill -9 leaves them
	killed.poll(t.Context())
	if s := killed.Status(); s.Version != 9 || s.NACK == nil || s.NACK.Code != policy.NACKWentBack {
		t.Errorf("after kill -9: %+v", s)
	}
	fresh := r.named("gw_new", t.TempDir(), rarely)
	fresh.poll(t.Context())
	if s := fresh.Status(); s.Version != 0 || s.NACK == nil || s.NACK.Code != policy.NACKWentBack {
		t.Errorf("a new replica: %+v", s)
	}
	if w.version() != 9 {
		t.Errorf("version %d", w.version())
	}
}

// TestWatcher_A24_AFrozenRedisIsSeenAndDecidesNothing stops the console's
// stamps and lets two minutes pass on the replica's clock.
func TestWatcher_A24_AFrozenRedisIsSeenAndDecidesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publish(5, 60)
	var ahead atomic.Int64
	w := r.named("gw_a", "", often, func(c *WatcherConfig) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	start(t, w.Run)
	if err := r.pub.PutStamp(t.Context(), policy.SignStamp(r.key, deployment, 5, p.Digest, time.Now())); err != nil {
		t.Fatal(err)
	}
	w.untilVersion(t, 5) // a poll takes the stamp first
	until(t, w.changed, "stamp", func() bool { return w.Status().StampAge >= 0 })
	before := w.Current()
	if w.Status().Stale() {
		t.Error("a fresh stamp is stale")
	}
	ahead.Store(int64(2*time.Minute + time.Second))
	w.untilPolled(t)
	if s := w.Status(); !s.Stale() || s.NACK != nil || w.Current() != before {
		t.Errorf("status %+v", s)
	}
}

// TestWire_R091_HalfAVersionIsNeverSeen publishes versions that differ in every
// route over a connection that breaks at random points, while replicas read.
func TestWire_R091_HalfAVersionIsNeverSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proxy := testkit.Proxy(t, r.redis.Addr)
	client := (&rig{t: t, redis: &testkit.RedisServer{URL: proxy.URL}}).newClient()
	broken, err := NewPublisher(Config{Client: client, Deployment: deployment})
	if err != nil {
		t.Fatal(err)
	}
	var watchers []watching
	for range 3 {
		w := r.watcher("", often)
		start(t, w.Run)
		watchers = append(watchers, w)
	}
	for v := int64(1); v <= 20; v++ {
		p := policy.SignPolicy(r.key, deployment, v, "", manyRoutes(t, 150, int(v)), time.Now())
		switch v % 4 {
		case 1:
			proxy.DropReply()
		case 2:
			proxy.CutReply(0)
		case 3:
			time.AfterFunc(time.Duration(v)*50*time.Microsecond, proxy.Sever)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, _ = broken.PublishPolicy(ctx, p) // nobody knows whether it got through
		cancel()
		proxy.Pass()
		for _, w := range watchers {
			whole(t, w.Current())
		}
		if _, err := r.pub.PublishPolicy(t.Context(), p); err != nil { // the relay's second attempt
			t.Fatal(err)
		}
	}
	for _, w := range watchers {
		w.untilVersion(t, 20)
		whole(t, w.Current())
	}
	if n := len(r.client.Keys(t.Context(), "hg:{policy}:body:*").Val()); n != keptBodies {
		t.Errorf("%d bodies are kept", n)
	}
}

// manyRoutes is a document in which every limit has the same burst.
func manyRoutes(t *testing.T, n, burst int) []byte {
	t.Helper()
	var b strings.Builder
	b.WriteString("apiVersion: headgate/v1\nplans:\n  free:\n    limits: [{name: requests, per: tenant, rate: 60/minute, burst: 60}]\nroutes:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: r%d, match: [\"/r%d/\"], identity: api_key, motive: fairness, limits: [{name: l, per: tenant, rate: 60/minute, burst: %d}], on_store_failure: {mode: closed}}\n", i, i, burst)
	}
	doc, report := policy.ParseLoose([]byte(b.String()))
	if doc == nil {
		t.Fatal(report)
	}
	return doc.Canonical()
}

// whole fails when the routes of a snapshot are not all of one version.
func whole(t *testing.T, s *Snapshot) {
	t.Helper()
	if s == nil {
		return
	}
	var doc struct {
		Routes []struct {
			Limits []struct {
				Burst int64 `json:"burst"`
			} `json:"limits"`
		} `json:"routes"`
	}
	if err := json.Unmarshal(s.Body, &doc); err != nil || len(doc.Routes) != 150 {
		t.Fatalf("version %d has %d routes: %v", s.Version, len(doc.Routes), err)
	}
	for i, route := range doc.Routes {
		if route.Limits[0].Burst != s.Version {
			t.Fatalf("route %d of version %d has the burst of version %d", i, s.Version, route.Limits[0].Burst)
		}
	}
}

// fetches is how many bodies Redis has given out.
func (r *rig) fetches() int64 {
	r.t.Helper()
	for line := range strings.Lines(r.client.Info(r.t.Context(), "commandstats").Val()) {
		var n int64
		if _, err := fmt.Sscanf(line, "cmdstat_getrange:calls=%d,", &n); err == nil {
			return n
		}
	}
	return 0
}

// TestWatcher_G04_ARollingRestartFetchesEachVersionOnce restarts twelve replicas
// one after the other while versions are published. A replica that starts again
// has its copy: only what is new is fetched, once by each.
func TestWatcher_G04_ARollingRestartFetchesEachVersionOnce(t *testing.T) {
	t.Parallel()
	const replicas, versions = 12, 4
	r := newRig(t)
	r.publish(1, 1)
	dirs, all, stops := make([]string, replicas), make([]watching, replicas), make([]func(), replicas)
	boot := func(i int) {
		all[i] = r.named(fmt.Sprintf("gw_%d", i), dirs[i], rarely)
		stops[i] = start(t, all[i].Run)
	}
	for i := range replicas {
		dirs[i] = t.TempDir()
		boot(i)
		all[i].untilVersion(t, 1)
	}
	begin := time.Now()
	for i := range replicas {
		before := all[i].version()
		stops[i]()
		boot(i)
		if all[i].version() < before {
			t.Fatalf("replica %d fell from %d to %d", i, before, all[i].version())
		}
		if i%3 == 0 {
			r.publish(int64(2+i/3), 2+i/3)
		}
	}
	for _, w := range all {
		w.untilVersion(t, 1+versions)
	}
	// A poll reads the stamp (GETRANGE) only when there is one: all of these are bodies.
	got, most := r.fetches(), int64(replicas*(1+versions))
	t.Logf("%d bodies in %v for %d replicas and %d versions", got, time.Since(begin), replicas, 1+versions)
	if got > most {
		t.Errorf("%d bodies were fetched, more than %d", got, most)
	}
	from := r.fetches()
	for i := range replicas { // nothing new: nothing is fetched
		stops[i]()
		boot(i)
		all[i].untilPolledOnce(t)
	}
	if now := r.fetches(); now != from {
		t.Errorf("%d bodies were fetched by restarts alone", now-from)
	}
}

func (w watching) untilPolledOnce(t *testing.T) {
	t.Helper()
	until(t, w.changed, "a poll", func() bool { return !w.Status().PolledAt.IsZero() })
}

// TestWatcher_G11_AStormOfPublicationsIsCoalesced publishes as fast as Redis
// takes it. Replicas end at the last version and take only some of the others.
func TestWatcher_G11_AStormOfPublicationsIsCoalesced(t *testing.T) {
	t.Parallel()
	const versions = 400
	r := newRig(t)
	w := r.named("gw_a", "", rarely)
	start(t, w.Run)
	untilSubscribed(t, r, 1)
	begin := time.Now()
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for v := int64(1); v <= versions; v++ {
			r.publish(v, int(v))
		}
	})
	publishing.Wait()
	storm := time.Since(begin)
	w.untilVersion(t, versions)
	// One look per gap of the bell at most, and each takes one version.
	most := int64(time.Since(begin)/bellGap) + 3
	if got := r.fetches(); got > most || got >= versions {
		t.Errorf("%d of %d versions were fetched in %v; at most %d may be", got, versions, storm, most)
	}
}

// TestWatcher_R092_PoisonIsKeptOutAcrossRestarts leaves a version in Redis that
// no replica can use, and restarts twenty of them.
func TestWatcher_R092_PoisonIsKeptOutAcrossRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(5, 60)
	dirs := make([]string, 20)
	for i := range dirs {
		dirs[i] = t.TempDir()
		w := r.named("gw", dirs[i], rarely)
		w.poll(t.Context())
	}
	bad := policy.SignPolicy(r.key, deployment, 6, "", []byte(`{"apiVersion":"headgate/v1","plans":null,"routes":[{"name":null,"limits":[{"rate":-1}]}]}`), time.Now())
	if _, err := r.pub.PublishPolicy(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	from := r.fetches()
	for _, dir := range dirs {
		w := r.named("gw", dir, rarely)
		for range 5 {
			w.poll(t.Context())
		}
		if s := w.Status(); s.Version != 5 || s.NACK == nil || s.NACK.Code != policy.NACKInvalid || s.NACK.Version != 6 || s.NACK.Detail == "" {
			t.Fatalf("status %+v", s)
		}
	}
	if n := r.fetches() - from; n != int64(len(dirs)) {
		t.Errorf("the poison was fetched %d times by %d replicas in 5 polls each", n, len(dirs))
	}
}
