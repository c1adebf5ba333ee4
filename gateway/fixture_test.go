package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/usage"
)

// testPolicy has a route of each kind.
const testPolicy = `
apiVersion: headgate/v1
client_ip: {trusted_proxies: [10.0.0.0/8, "2001:db8:ffff::/48"]}
credentials:
  headers: [{name: Authorization, scheme: Bearer}, {name: X-API-Key}]
  invalid: {per: ip, rate: 30/minute, burst: 30}
global: {limits: [{name: all, per: global, rate: 50000/second, burst: 50000}]}
plans:
  free: {limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}]}
  big: {limits: [{name: requests, per: tenant, counts: requests, rate: 1000/minute, burst: 1000}]}
  none: {limits: [{name: requests, per: tenant, counts: requests, rate: 0/minute, burst: 0}]}
routes:
  - name: report
    match: ["GET /v1/reports/{id}"]
    identity: api_key
    motive: fairness
    cost: 5
    limits: [{name: reports, per: tenant, rate: 10/minute, burst: 10}]
    on_store_failure: {mode: open, fallback: {rate: 10/minute, burst: 10}}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: per-ip, per: ip, rate: 5/minute, burst: 5}]
    on_store_failure: {mode: closed}
  - name: public
    match: ["GET /public/"]
    identity: ip
    motive: fairness
    limits: [{name: per-ip, per: ip, rate: 5/minute, burst: 5}]
    on_store_failure: {mode: open, fallback: unlimited}
  - name: rest
    match: ["/api/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
`

// fakePolicies serves one snapshot.
type fakePolicies struct {
	mu     sync.Mutex
	snap   *feed.Snapshot
	status feed.Status
}

func (f *fakePolicies) Current() *feed.Snapshot { f.mu.Lock(); defer f.mu.Unlock(); return f.snap }

func (f *fakePolicies) Status() feed.Status { f.mu.Lock(); defer f.mu.Unlock(); return f.status }

func (f *fakePolicies) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (f *fakePolicies) set(snap *feed.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.snap = snap
	f.status = feed.Status{StampAge: -1}
	if snap != nil {
		f.status.Version = snap.Version
	}
}

// fakeDirectory knows what it was told and counts what it was asked.
type fakeDirectory struct {
	mu      sync.Mutex
	keys    map[string]policy.KeyRecord
	tenants map[string]policy.TenantRecord
	err     error // answers everything when set
	asked   int
	cached  bool // keys count as held in memory
}

func (f *fakeDirectory) Key(_ context.Context, kid string) (policy.KeyRecord, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.err != nil {
		return policy.KeyRecord{}, f.err
	}
	if k, ok := f.keys[kid]; ok {
		return k, nil
	}
	return policy.KeyRecord{}, feed.ErrUnknown
}

func (f *fakeDirectory) Tenant(_ context.Context, id string) (policy.TenantRecord, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return policy.TenantRecord{}, f.err
	}
	if t, ok := f.tenants[id]; ok {
		return t, nil
	}
	return policy.TenantRecord{}, feed.ErrUnknown
}

func (f *fakeDirectory) Cached(kid string) (policy.KeyRecord, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k, ok := f.keys[kid]
	return k, ok && f.cached
}

func (f *fakeDirectory) Place() policy.Place { return policy.Place{Epoch: "e", Seq: 7} }

func (f *fakeDirectory) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (f *fakeDirectory) change(do func(f *fakeDirectory)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(f)
}

// fakeReporter keeps what it was sent.
type fakeReporter struct {
	mu      sync.Mutex
	err     error
	skew    time.Duration // Redis' clock less ours
	beats   []policy.Heartbeat
	batches []usage.Batch
	beaten  chan struct{}
	live    int // replicas; 0 is 1
}

func (f *fakeReporter) Beat(_ context.Context, b policy.Heartbeat) (int, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beats = append(f.beats, b)
	select {
	case f.beaten <- struct{}{}:
	default:
	}
	return max(f.live, 1), time.Now().Add(f.skew), f.err
}

func (f *fakeReporter) SendUsage(_ context.Context, b usage.Batch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.batches = append(f.batches, b)
	}
	return f.err
}

// brokenStore fails while broken is set and counts its calls.
type brokenStore struct {
	limiter.Store
	mu     sync.Mutex
	broken bool
	calls  int
}

func (s *brokenStore) Take(ctx context.Context, draw *limiter.Draw) (limiter.Outcome, error) {
	if s.call() {
		return limiter.Outcome{}, limiter.ErrStore
	}
	return s.Store.Take(ctx, draw)
}

func (s *brokenStore) Amend(ctx context.Context, id string, corrections []limiter.Amendment) error {
	if s.call() {
		return limiter.ErrStore
	}
	return s.Store.Amend(ctx, id, corrections)
}

func (s *brokenStore) Release(ctx context.Context, leases []limiter.Lease) error {
	if s.call() {
		return limiter.ErrStore
	}
	return s.Store.Release(ctx, leases)
}

// call counts one and reports whether the store is broken.
func (s *brokenStore) call() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.broken
}

func (s *brokenStore) asked() int { s.mu.Lock(); defer s.mu.Unlock(); return s.calls }

func (s *brokenStore) fail(broken bool) { s.mu.Lock(); defer s.mu.Unlock(); s.broken = broken }

// fixture is a gateway on fakes with a clock that stands still.
type fixture struct {
	t         testing.TB
	g         *Gateway
	policies  *fakePolicies
	directory *fakeDirectory
	reporter  *fakeReporter
	store     *brokenStore
	upstream  *httptest.Server

	mu  sync.Mutex
	now time.Time
}

func (f *fixture) clock() time.Time { f.mu.Lock(); defer f.mu.Unlock(); return f.now }

func (f *fixture) advance(d time.Duration) { f.mu.Lock(); defer f.mu.Unlock(); f.now = f.now.Add(d) }

// newFixture makes a gateway in front of an upstream; changes may alter its configuration.
func newFixture(t testing.TB, source string, upstream http.Handler, changes ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{
		t: t, policies: &fakePolicies{}, reporter: &fakeReporter{beaten: make(chan struct{}, 100)},
		directory: &fakeDirectory{keys: map[string]policy.KeyRecord{}, tenants: map[string]policy.TenantRecord{}},
		now:       time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC),
	}
	f.store = &brokenStore{Store: memstore.New(f.clock)}
	if source != "" {
		f.policies.set(snapshot(t, 42, source))
	}
	if upstream == nil {
		upstream = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	}
	f.upstream = httptest.NewServer(upstream)
	t.Cleanup(f.upstream.Close)
	cfg := Config{
		Policies: f.policies, Directory: f.directory, Reporter: f.reporter, Store: f.store,
		Identity: Identity{ID: "gw_aaaaaaaaaaaaaaaa", Boot: rand.Text()},
		Listen:   "127.0.0.1:0", Upstream: mustURL(t, f.upstream.URL), LegacyHeaders: true,
		Now: f.clock, Jitter: func() int64 { return 2 },
		Budget: 2 * time.Second, // tests of budgets set their own; test machines are busy
	}
	for _, change := range changes {
		change(&cfg)
	}
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.g = g
	return f
}

func snapshot(t testing.TB, version int64, source string) *feed.Snapshot {
	t.Helper()
	doc, report := policy.Parse([]byte(source))
	if doc == nil {
		t.Fatalf("policy of the test: %v", report.Problems)
	}
	compiled, err := policy.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &feed.Snapshot{Version: version, Digest: compiled.Digest, Compiled: compiled}
}

func mustURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// key makes a key of a tenant on a plan, and lets change alter its record.
func (f *fixture) key(tenant, plan string, change ...func(*policy.KeyRecord)) string {
	f.t.Helper()
	secret, kid, err := apikey.Generate(apikey.Live, rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	record := policy.KeyRecord{
		KID: kid, Tenant: tenant, Credential: "crd_" + tenant, Environment: apikey.Live,
		Digest: apikey.Digest(secret.Reveal()), State: policy.KeyActive,
	}
	for _, c := range change {
		c(&record)
	}
	f.directory.change(func(d *fakeDirectory) {
		d.keys[kid] = record
		d.tenants[tenant] = policy.TenantRecord{ID: tenant, Plan: plan, State: policy.TenantActive}
	})
	return secret.Reveal()
}

// unknownKey is well-formed and in no directory.
func unknownKey(t testing.TB) string {
	t.Helper()
	secret, _, err := apikey.Generate(apikey.Live, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

// do sends one request through the proxy door, from peer 192.0.2.1 unless
// headers say otherwise ("Peer").
func (f *fixture) do(method, target string, headers ...string) *http.Response {
	f.t.Helper()
	return serve(f.g.ProxyHandler(), method, target, headers...)
}

func serve(h http.Handler, method, target string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = "192.0.2.1:4711"
	for i := 0; i+1 < len(headers); i += 2 {
		switch headers[i] {
		case "Peer":
			r.RemoteAddr = headers[i+1]
		case "Host":
			r.Host = headers[i+1]
		default:
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// bearer is the credential header of key.
func bearer(key string) []string { return []string{"Authorization", "Bearer " + key} }
