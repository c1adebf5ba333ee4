package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

func TestConfig_AllProblemsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		Listen: "nonsense", Upstream: &url.URL{Scheme: "ftp", Host: "x"}, DecideListen: "0.0.0.0:0", AdminListen: "x",
		GRPCListen: "127.0.0.1:0", Budget: -1, Drain: time.Hour, UpstreamTimeout: -1, FallbackEntries: -1, DecideToken: "short",
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"policies, directory", "--state-dir", "--listen: ", "--upstream: ", "--admin-listen: ", "--grpc-listen: this build has no server for it",
		"--budget: ", "--drain: ", "--upstream-timeout: ", "--fallback-entries: ", "--decide-token-file: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in:\n%v", want, err)
		}
	}
}

func TestConfig_DecisionsElsewhereThanOnLoopbackNeedAToken(t *testing.T) {
	t.Parallel()
	for addr, loopback := range map[string]bool{
		"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, ":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "name:1": false,
	} {
		problems := 0
		c := Config{DecideListen: addr}
		c.Problems(func(string, string, ...any) { problems++ })
		if (problems == 0) != loopback {
			t.Errorf("%s without a token: %d problems", addr, problems)
		}
		c.DecideToken = strings.Repeat("t", 32)
		c.Problems(func(setting, format string, _ ...any) { t.Errorf("%s with a token: %s %s", addr, setting, format) })
	}
}

// running starts a gateway on real listeners and returns its addresses and what
// stops it and waits for Run's error.
func (f *fixture) running() (Bound, func() error) {
	f.t.Helper()
	file := filepath.Join(f.t.TempDir(), "addresses.json")
	f.g.cfg.AddrFile, f.g.cfg.DecideListen, f.g.cfg.AdminListen = file, "127.0.0.1:0", "127.0.0.1:0"
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.g.Run(ctx) }()
	<-f.reporter.beaten // the first heartbeat comes after the listeners
	raw, err := os.ReadFile(file)
	if err != nil {
		f.t.Fatal(err)
	}
	var bound Bound
	if err := json.Unmarshal(raw, &bound); err != nil {
		f.t.Fatal(err)
	}
	stop := sync.OnceValue(func() error { cancel(); return <-ended })
	f.t.Cleanup(func() { _ = stop() })
	return bound, stop
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(raw)
}

func TestRun_ServesAllDoorsAndSaysWhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	bound, stop := f.running()
	if status, _ := get(t, "http://"+bound.Proxy+"/public/x"); status != 204 {
		t.Errorf("proxy: %d", status)
	}
	if status, text := get(t, "http://"+bound.Decide+"/v1/check"); status != 400 {
		t.Errorf("decisions: %d %s", status, text)
	}
	if status, text := get(t, "http://"+bound.Admin+"/healthz"); status != 200 || !strings.Contains(text, "ok") {
		t.Errorf("health: %d %s", status, text)
	}
	if status, text := get(t, "http://"+bound.Admin+"/metrics"); status != 200 || !strings.Contains(text, `headgate_decisions_total{mode="normal",outcome="admitted",route="public"} 1`) {
		t.Errorf("metrics: %d %s", status, text)
	}
	if err := stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
	f.reporter.mu.Lock()
	defer f.reporter.mu.Unlock()
	if b := f.reporter.beats[0]; b.ID != "gw_aaaaaaaaaaaaaaaa" || b.Version != 42 || b.Mode != "normal" || b.Directory.Seq != 7 || b.ProxyAddr != bound.Proxy || b.StampAgeMS != -1 {
		t.Errorf("heartbeat %+v", b)
	}
	if n := requestsIn(f.reporter.batches); n != 1 {
		t.Errorf("%d requests were reported, want 1: the last second counts, too", n)
	}
}

func requestsIn(batches []usage.Batch) int64 {
	n := int64(0)
	for _, b := range batches {
		for _, r := range b.Rows {
			n += r.Requests
		}
	}
	return n
}

func TestRun_R050_ReadinessSaysWhyNot(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", nil)
	f.reporter.err = errors.New("no Redis")
	bound, _ := f.running()
	status, text := get(t, "http://"+bound.Admin+"/readyz")
	if status != 503 || !strings.Contains(text, `"no-policy"`) || !strings.Contains(text, `"redis-unreachable"`) {
		t.Errorf("without a policy: %d %s", status, text)
	}
	if status, _ := get(t, "http://"+bound.Admin+"/healthz"); status != 200 {
		t.Errorf("alive: %d", status)
	}
	f.policies.set(snapshot(t, 1, testPolicy))
	if status, text := get(t, "http://"+bound.Admin+"/readyz"); status != 200 || !strings.Contains(text, `"ready":true`) {
		t.Errorf("with one: %d %s", status, text)
	}
}

func TestRun_StartWaitsForTheDirectoryButNotForEver(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	unread := func() bool { return slices.Contains(f.g.unready(), "directory-unread") }
	if !unread() {
		t.Error("ready before anything was read")
	}
	f.g.beat(t.Context(), f.g.heartbeat(policy.Heartbeat{}))
	if unread() {
		t.Error("not ready although the directory was read")
	}
	late := newFixture(t, testPolicy, nil)
	late.advance(settleTime + time.Second)
	if slices.Contains(late.g.unready(), "directory-unread") {
		t.Error("still not ready")
	}
}

func TestRun_G02_RequestsInFlightAreFinished(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	f := newFixture(t, testPolicy, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, "finished")
	}))
	bound, stop := f.running()
	answer := make(chan string, 1)
	go func() {
		_, text := get(t, "http://"+bound.Proxy+"/public/x")
		answer <- text
	}()
	<-arrived
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for { // readiness goes off while the request is still in flight, or the test times out
		if status, text := get(t, "http://"+bound.Admin+"/readyz"); status == 503 && strings.Contains(text, "draining") {
			break
		}
	}
	close(release)
	if text := <-answer; text != "finished" {
		t.Errorf("the request in flight got %q", text)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// fakeDoor is a door that another package brings.
type fakeDoor struct {
	served chan net.Addr
	ended  chan struct{}
	drains atomic.Int32
}

func (d *fakeDoor) Serve(l net.Listener) error {
	d.served <- l.Addr()
	<-d.ended
	return l.Close()
}

func (d *fakeDoor) Shutdown(context.Context) error { d.drains.Add(1); close(d.ended); return nil }

func (d *fakeDoor) Close() error { return nil }

func TestRun_ADoorOfAnotherPackageIsServedToldAndDrained(t *testing.T) {
	t.Parallel()
	d := &fakeDoor{served: make(chan net.Addr, 1), ended: make(chan struct{})}
	var asked *Gateway
	f := newFixture(t, testPolicy, nil, func(c *Config) {
		c.GRPCListen, c.GRPCDoor = "127.0.0.1:0", func(g *Gateway) (Door, error) { asked = g; return d, nil }
	})
	bound, stop := f.running()
	if got := (<-d.served).String(); bound.GRPC != got || asked != f.g {
		t.Errorf("told is %q, served %q", bound.GRPC, got)
	}
	if v := asked.Decide(t.Context(), &Inbound{Method: "GET", EscapedPath: "/public/x", Header: http.Header{}}); !v.Allowed || len(asked.Unready()) != 0 {
		t.Errorf("%+v, %v", v, asked.Unready())
	}
	if !asked.MayAsk(netip.MustParseAddr("127.0.0.1"), "") || asked.MayAsk(netip.MustParseAddr("192.0.2.1"), "") {
		t.Error("who may ask")
	}
	if err := stop(); err != nil || d.drains.Load() != 1 {
		t.Errorf("%v, drained %d times", err, d.drains.Load())
	}
	c := Config{GRPCListen: "0.0.0.0:1"}
	problems := 0
	c.Problems(func(string, string, ...any) { problems++ })
	c.GRPCMutualTLS = true
	c.Problems(func(setting, format string, args ...any) {
		t.Errorf("with certificates: %s "+format, append([]any{setting}, args...)...)
	})
	if problems != 1 {
		t.Errorf("%d problems without a token", problems)
	}
}

func TestRun_DoorThatCannotOpenIsAnErrorAndLeavesNoneOpen(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f := newFixture(t, testPolicy, nil, func(c *Config) { c.AdminListen, c.DecideListen = taken.Addr().String(), taken.Addr().String() })
	err = f.g.Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), "--admin-listen") || !strings.Contains(err.Error(), "--decide-listen") {
		t.Fatalf("error %v", err)
	}
	if _, err := net.Dial("tcp", f.g.bound.Proxy); err == nil {
		t.Error("the proxy door stayed open")
	}
}

func TestHeartbeat_ChangesAreReportedAtOnceAndClocksCompared(t *testing.T) {
	t.Parallel()
	changes := make(chan struct{})
	f := newFixture(t, testPolicy, nil, func(c *Config) { c.Changes, c.Now = changes, time.Now })
	f.reporter.skew = -90 * time.Second
	f.running()
	f.policies.set(snapshot(t, 43, testPolicy))
	changes <- struct{}{}
	<-f.reporter.beaten
	f.reporter.mu.Lock()
	last := f.reporter.beats[len(f.reporter.beats)-1]
	f.reporter.mu.Unlock()
	if last.Version != 43 {
		t.Errorf("heartbeat after the change: %+v", last)
	}
	if last.ClockOffsetMS < 89_000 || last.ClockOffsetMS > 91_000 {
		t.Errorf("clock offset %d ms, want 90 000", last.ClockOffsetMS)
	}
	if now := time.Now(); now.Sub(f.g.redisTime(now)).Round(time.Second) != 90*time.Second {
		t.Errorf("Redis' time of %v is %v", now, f.g.redisTime(now))
	}
}

func TestUsage_BatchesWaitForRedisInOrderAndAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	f.reporter.err = errors.New("no Redis")
	var waiting []usage.Batch
	for range maxBatches + 10 {
		waiting = f.g.ship(t.Context(), append(waiting, f.g.counter.Cut(f.clock())))
	}
	if len(waiting) != maxBatches || waiting[0].Seq != 11 {
		t.Fatalf("%d batches wait, the first is %d", len(waiting), waiting[0].Seq)
	}
	f.reporter.err = nil
	if waiting = f.g.ship(t.Context(), waiting); len(waiting) != 0 {
		t.Errorf("%d batches wait", len(waiting))
	}
	for i, b := range f.reporter.batches {
		if b.Seq != int64(i+11) {
			t.Fatalf("batch %d has number %d", i, b.Seq)
		}
	}
}

func TestLog_R128_RefusalsAreSummedUpAndSecretsNeverAppear(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := newFixture(t, testPolicy, nil, func(c *Config) {
		c.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	secret := unknownKey(t)
	for range 100 {
		f.do("GET", "/api/x?api_key="+secret, bearer(secret)...)
		f.do("GET", "/nowhere%0A"+secret[:4])
	}
	f.store.fail(true)
	f.do("POST", "/login")
	f.g.tally.summary(f.g.cfg.Log)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) > 3 {
		t.Errorf("%d lines for 201 refusals", len(lines))
	}
	var summary struct {
		Count int64
		Codes map[Code]int64
	}
	begun := lines[0]
	if !strings.Contains(begun, "incident began") || len(lines) < 2 {
		t.Fatalf("the outage is not told: %s", log.String())
	}
	lines = lines[1:]
	if err := json.Unmarshal([]byte(lines[0]), &summary); err != nil || summary.Count != 201 || summary.Codes[CodeInvalidCredential] != 30 {
		t.Errorf("summary %s: %v", lines[0], err)
	}
	if strings.Contains(log.String(), secret) || strings.Contains(log.String(), secret[20:52]) {
		t.Error("the log holds the key")
	}
	log.Reset()
	f.g.tally.summary(f.g.cfg.Log)
	if log.Len() != 0 {
		t.Errorf("nothing happened, and the log says %s", log.String())
	}
}

func TestLog_OnlyFaultsOfOursAreErrors(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := serverLog{slog.New(slog.NewJSONHandler(&out, nil))}
	_, _ = w.Write([]byte("http: TLS handshake error from 192.0.2.1"))
	if out.Len() != 0 {
		t.Errorf("what callers cause is logged: %s", out.String())
	}
	n, err := w.Write([]byte("http: panic serving 192.0.2.1: " + strings.Repeat("x", 1<<20)))
	if err != nil || n < 1<<20 || !strings.Contains(out.String(), `"level":"ERROR"`) || out.Len() > 2*maxLogged {
		t.Errorf("%d bytes taken, %v; log of %d bytes", n, err, out.Len())
	}
}

func TestMetrics_B7_LabelsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	seen := map[string]bool{}
	for i := range 1000 {
		seen[f.g.metrics.route(strings.Repeat("r", i))] = true
	}
	if len(seen) != maxRouteLabels+2 { // and "none", "other"
		t.Errorf("%d values of the label route", len(seen))
	}
}

func TestInvalidLimit_TableIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	rule := f.policies.snap.Compiled.Document.Credentials.Invalid
	l := newInvalidLimit(100)
	now := f.clock()
	for i := range 1000 {
		l.charge(strings.Repeat("a", i), rule, now)
	}
	if len(l.entries) != 100 {
		t.Errorf("%d entries", len(l.entries))
	}
	if _, over := l.over("never seen", rule, now); over {
		t.Error("an address that sent no bad key is refused")
	}
	l.charge("new", rule, now.Add(time.Minute)) // all have recovered
	if len(l.entries) != 1 {
		t.Errorf("%d entries after a quiet minute", len(l.entries))
	}
}

func TestNew_ProxyIsOptional(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{
		Policies: &fakePolicies{}, Directory: &fakeDirectory{}, Reporter: &fakeReporter{}, Store: memstore.New(time.Now),
		Identity: Identity{ID: "gw_x", Boot: "b"}, DecideListen: "127.0.0.1:0",
	}); err != nil {
		t.Errorf("a gateway without a proxy: %v", err)
	}
}
