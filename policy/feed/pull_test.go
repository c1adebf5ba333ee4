package feed

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
)

const gateToken = "a-token-of-gateways-0123456789abcdef"

// gate is a console's door as docs/gateway.md describes it.
type gate struct {
	*httptest.Server
	mu     sync.Mutex
	told   policy.Pulled
	stamps *policy.Stamp
	asked  int
	bodies int // answers that carried a body
	beats  []policy.Heartbeat
	fail   func(w http.ResponseWriter) // nil: none
	news   chan struct{}
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{news: make(chan struct{}, 1)}
	g.Server = httptest.NewTLSServer(http.HandlerFunc(g.serve))
	t.Cleanup(g.Close)
	return g
}

func (g *gate) serve(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	select {
	case g.news <- struct{}{}:
	default:
	}
	switch {
	case g.fail != nil:
		g.fail(w)
	case r.Header.Get("Authorization") != "Bearer "+gateToken:
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"detail":"This needs the gateways' token."}`))
	case r.URL.Path == "/gateway/v1/heartbeat":
		var h policy.Heartbeat
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		g.beats = append(g.beats, h)
		_, _ = w.Write([]byte(`{"live": 7}`))
	default:
		g.policy(w, r)
	}
}

func (g *gate) policy(w http.ResponseWriter, r *http.Request) {
	told := g.told
	if told.Canary != nil && !told.Canary.Names(r.URL.Query().Get("replica")) {
		told.Canary, told.CanaryBody = nil, nil
	}
	etag := fmt.Sprintf(`"%d-%v"`, told.Policy.Version, told.Canary != nil)
	w.Header().Set("ETag", etag)
	if g.stamps != nil {
		raw, err := json.Marshal(g.stamps)
		if err != nil {
			panic(err)
		}
		w.Header().Set(StampHeader, base64.StdEncoding.EncodeToString(raw))
	}
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	g.bodies++
	if err := json.NewEncoder(w).Encode(told); err != nil {
		panic(err)
	}
}

func (g *gate) set(change func()) { g.mu.Lock(); defer g.mu.Unlock(); change() }

// untilAsked waits for n more requests.
func (g *gate) untilAsked(t *testing.T, n int) {
	t.Helper()
	g.mu.Lock()
	want := g.asked + n
	g.mu.Unlock()
	until(t, &signals{g.news}, "a request", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.asked >= want })
}

// way is a Console that leads to the gate.
func (g *gate) way(t *testing.T, token string) *Console {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})
	c, err := NewConsole(ConsoleConfig{URL: g.URL, Token: token, CA: ca})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// away is a rig whose gateways stand behind a proxy that can be cut.
type away struct {
	*rig
	*gate
	proxy *testkit.FaultProxy
}

func newAway(t *testing.T) *away {
	t.Helper()
	r := newRig(t)
	return &away{r, newGate(t), testkit.Proxy(t, r.redis.Addr)}
}

// replica is a watcher behind the proxy that may ask the console.
func (a *away) replica(t *testing.T, id, dir string, token string) watching {
	t.Helper()
	client := (&rig{t: t, redis: &testkit.RedisServer{URL: a.proxy.URL}}).newClient()
	return a.named(id, dir, 20*time.Millisecond, func(c *WatcherConfig) {
		c.Client, c.Console, c.Pull = client, a.way(t, token), 20*time.Millisecond
	})
}

func TestPull_AReplicaWithNothingStartsFromTheConsole(t *testing.T) {
	t.Parallel()
	a := newAway(t)
	a.proxy.Cut()
	stamp := policy.SignStamp(a.key, deployment, 9, policy.DigestOf(document(60)), time.Now())
	a.set(func() { a.told.Policy, a.stamps = a.signed(9, 60), &stamp })
	dir := t.TempDir()
	w := a.replica(t, "gw_a", dir, gateToken)
	start(t, w.Run)
	w.untilVersion(t, 9)
	if s := w.Status(); s.Reachable || s.NACK != nil || s.StampAge < 0 || s.Unsaved {
		t.Errorf("status %+v", s)
	}
	if again := a.named("gw_a", copied(t, dir), rarely); again.version() != 9 {
		t.Errorf("after a restart version %d", again.version())
	}
}

func TestPull_AnEmergencyPublishNeedsNoRedisAndNothingGoesBackAfterwards(t *testing.T) {
	t.Parallel()
	a := newAway(t)
	before := a.publish(5, 60)
	var all []watching
	for i := range 4 {
		w := a.replica(t, fmt.Sprintf("gw_%d", i), t.TempDir(), gateToken)
		start(t, w.Run)
		w.untilVersion(t, 5)
		all = append(all, w)
	}
	if a.asked != 0 {
		t.Errorf("the console was asked %d times while Redis was there", a.asked)
	}
	a.proxy.Cut()
	a.set(func() { a.told.Policy = before })
	a.untilAsked(t, 8)
	next := a.signed(6, 61)
	a.set(func() { a.told.Policy = next })
	for _, w := range all {
		w.untilVersion(t, 6)
	}
	a.proxy.Pass() // with the version before, as Redis has it
	for _, w := range all {
		until(t, w.changed, "Redis again", func() bool { return w.Status().Reachable })
		w.untilPolled(t)
		if w.version() != 6 {
			t.Errorf("version %d", w.version())
		}
	}
	a.publishAgain(t, next)
	for _, w := range all {
		w.untilNoNACK(t)
	}
	asked := func() int { a.mu.Lock(); defer a.mu.Unlock(); return a.asked }
	for _, w := range all {
		w.untilPolled(t)
	}
	from := asked()
	for _, w := range all {
		w.untilPolled(t)
		w.untilPolled(t)
	}
	if now := asked(); now != from {
		t.Errorf("the console is asked %d times though Redis is back", now-from)
	}
}

func (a *away) publishAgain(t *testing.T, p policy.SignedPolicy) {
	t.Helper()
	if result, err := a.pub.PublishPolicy(t.Context(), p); err != nil || result != "published" {
		t.Fatal(result, err)
	}
}

func TestPull_WhatHasNotChangedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	a := newAway(t)
	a.proxy.Cut()
	a.set(func() { a.told.Policy = a.signed(9, 60) })
	w := a.replica(t, "gw_a", "", gateToken)
	start(t, w.Run)
	w.untilVersion(t, 9)
	a.untilAsked(t, 5)
	a.set(func() {
		if a.bodies != 1 {
			t.Errorf("%d bodies were sent", a.bodies)
		}
	})
}

func TestPull_ACanaryReachesItsReplicaWithoutRedis(t *testing.T) {
	t.Parallel()
	a := newAway(t)
	a.proxy.Cut()
	base := a.signed(9, 60)
	tried := policy.SignPolicy(a.key, deployment, 10, base.Digest, document(61), time.Now())
	c := policy.SignCanary(a.key, deployment, tried, 9, []string{"gw_a"}, time.Now())
	a.set(func() { a.told = policy.Pulled{Policy: base, Canary: &c, CanaryBody: tried.Body} })
	w, other := a.replica(t, "gw_a", "", gateToken), a.replica(t, "gw_b", "", gateToken)
	start(t, w.Run)
	start(t, other.Run)
	w.untilVersion(t, 10)
	other.untilVersion(t, 9)
	a.untilAsked(t, 6)
	if w.version() != 10 || other.version() != 9 || w.Status().NACK != nil || other.Status().NACK != nil {
		t.Errorf("versions %d and %d", w.version(), other.version())
	}
}

// TestPull_A23_AConsoleIsBelievedNoMoreThanRedis gives every forgery of an offer
// in Redis out over HTTPS instead.
func TestPull_A23_AConsoleIsBelievedNoMoreThanRedis(t *testing.T) {
	t.Parallel()
	shared := newRig(t)
	for name, f := range shared.forgeries() {
		if f.change != nil {
			continue // of the head's encoding in Redis
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAway(t)
			a.publish(5, 60)
			w := a.replica(t, "gw_a", "", gateToken)
			start(t, w.Run)
			w.untilVersion(t, 5)
			a.proxy.Cut()
			a.set(func() { a.told.Policy = f.p })
			w.untilNACK(t, f.code)
			if w.version() != 5 {
				t.Errorf("version %d is in force", w.version())
			}
		})
	}
}

func TestPull_AConsoleThatHangsOrRefusesHarmsNothing(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	for name, fail := range map[string]func(http.ResponseWriter){
		"hangs":     func(http.ResponseWriter) { <-hang },
		"500":       func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"elsewhere": func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(http.StatusFound) },
		"no JSON":   func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) },
		"2^60":      func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"policy":{"version":1152921504606846976}}`)) },
		"empty":     func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{}`)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAway(t)
			if name == "hangs" {
				t.Cleanup(func() { close(hang) })
			}
			a.publish(5, 60)
			w := a.replica(t, "gw_a", "", gateToken)
			start(t, w.Run)
			w.untilVersion(t, 5)
			a.set(func() { a.fail = fail })
			a.proxy.Cut()
			until(t, &signals{a.news}, "a request", func() bool { return len(a.news) > 0 || !w.Status().Reachable })
			a.publish(6, 61)
			a.proxy.Pass()
			w.untilVersion(t, 6) // Redis is not held up by it
		})
	}
}

func TestConsole_BringsHeartbeatsAndTellsWhatItIsTold(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	live, err := g.way(t, gateToken).Beat(t.Context(), policy.Heartbeat{ID: "gw_a", Boot: "b", Version: 3})
	if err != nil || live != 7 || len(g.beats) != 1 || g.beats[0].ID != "gw_a" {
		t.Fatalf("%d, %v, %+v", live, err, g.beats)
	}
	wrong := g.way(t, strings.ToUpper(gateToken))
	if _, err := wrong.Beat(t.Context(), policy.Heartbeat{}); err == nil || !strings.Contains(err.Error(), "401") || !strings.Contains(err.Error(), "needs the gateways' token") {
		t.Errorf("a wrong token: %v", err)
	}
	if _, err := wrong.policy(t.Context(), "gw_a", ""); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a wrong token: %v", err)
	}
	other, err := NewConsole(ConsoleConfig{URL: g.URL, Token: gateToken}) // that does not trust the gate's authority
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Beat(context.WithoutCancel(t.Context()), policy.Heartbeat{}); err == nil || strings.Contains(err.Error(), gateToken) {
		t.Errorf("a foreign certificate: %v", err)
	}
}

func TestNewConsole_ListsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := NewConsole(ConsoleConfig{URL: "ftp://x", Token: "short", CA: []byte("x")})
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{"URL", "token", "authority"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name the %s", err, want)
		}
	}
	for _, bad := range []string{"", "https://", "https://u:p@h", "https://h/path", "https://h?x=1", "://"} {
		if _, err := NewConsole(ConsoleConfig{URL: bad, Token: gateToken}); err == nil {
			t.Errorf("%q is a console", bad)
		}
	}
}

func FuzzDecodePulled(f *testing.F) {
	p := policy.SignPolicy(key('a'), deployment, 6, "", []byte("{}"), time.Unix(1, 0))
	c := policy.SignCanary(key('a'), deployment, p, 5, []string{"gw_a"}, time.Unix(1, 0))
	for _, told := range []policy.Pulled{{Policy: p}, {Policy: p, Canary: &c, CanaryBody: p.Body}, {}} {
		raw, err := json.Marshal(told)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := decodePulled(raw)
		if err == nil && (got.Policy.Version < 0 || got.Policy.Version > maxVersion) {
			t.Errorf("version %d", got.Policy.Version)
		}
	})
}
