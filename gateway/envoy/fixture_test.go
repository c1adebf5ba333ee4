package envoy

import (
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/policy/feed"
)

// testPolicy has a route of each kind.
const testPolicy = `
apiVersion: headgate/v1
client_ip: {trusted_proxies: [10.0.0.0/8, 127.0.0.0/8]}
user: {header: X-User-Id}
global: {limits: [{name: all, per: global, rate: 50000/second, burst: 50000}]}
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}]
    quota: {amount: 100000, counts: cost, period: month, alignment: calendar, time_zone: UTC, over: block}
routes:
  - name: report
    match: ["GET /v1/reports/{id}"]
    cost: 5
    limits: [{name: reports, per: tenant, rate: 10/minute, burst: 10}]
    on_store_failure: {mode: open, fallback: {rate: 10/minute, burst: 10}}
  - name: ten
    match: ["GET /ten"]
    limits: [{name: ten, per: tenant, rate: 10/hour, burst: 10}]
    on_store_failure: {mode: closed}
  - name: jobs
    match: ["POST /jobs"]
    concurrency: {per: tenant, max: 2, lease: 90s}
    on_store_failure: {mode: closed}
  - name: mine
    match: ["GET /mine"]
    identity: user
    limits: [{name: own, per: user, rate: 3/minute, burst: 3}]
    on_store_failure: {mode: closed}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: per-ip, per: ip, rate: 5/minute, burst: 5}, {name: per-account, per: "body:username", rate: 2/minute, burst: 2}]
    on_store_failure: {mode: closed}
  - name: public
    match: ["GET /public/"]
    identity: ip
    limits: [{name: per-ip, per: ip, rate: 5/minute, burst: 5}]
    on_store_failure: {mode: open, fallback: unlimited}
  - name: stopped
    match: ["GET /stopped"]
    identity: ip
    limits: [{name: none, per: ip, rate: 0/minute, burst: 0}]
    on_store_failure: {mode: closed}
`

// fixture is a gateway on fakes, with this door on loopback in front of it.
type fixture struct {
	*clock
	t         testing.TB
	g         *gateway.Gateway
	store     *testStore
	directory *fakeDirectory
	server    *Server
	addr      string
	conn      *grpc.ClientConn
	limits    ratelimitv3.RateLimitServiceClient
	authz     authv3.AuthorizationClient
}

// setup is what a test may change of a fixture.
type setup struct {
	gateway gateway.Config
	envoy   Config
	policy  string
}

func newFixture(t testing.TB, changes ...func(*setup)) *fixture {
	t.Helper()
	f := &fixture{
		t: t, clock: newClock(),
		directory: &fakeDirectory{keys: map[string]policy.KeyRecord{}, tenants: map[string]policy.TenantRecord{}},
	}
	f.store = &testStore{Store: memstore.New(f.Now), begun: make(chan struct{}, 100)}
	s := setup{
		gateway: gateway.Config{
			Directory: f.directory, Reporter: fakeReporter{}, Store: f.store,
			Identity: gateway.Identity{ID: "gw_aaaaaaaaaaaaaaaa", Boot: rand.Text()}, DecideListen: "127.0.0.1:0",
			LegacyHeaders: true, DebugHeader: true, Budget: 5 * time.Second, Now: f.Now, Jitter: func() int64 { return 2 },
		},
		envoy:  Config{Budget: 5 * time.Second}, // tests of budgets set their own; machines are busy
		policy: testPolicy,
	}
	for _, change := range changes {
		change(&s)
	}
	s.gateway.Policies = &fakePolicies{snapshot(t, s.policy)}
	var err error
	if f.g, err = gateway.New(s.gateway); err != nil {
		t.Fatal(err)
	}
	f.tenant("ten_a")
	f.server, f.addr = serve(t, f.g, s.envoy)
	f.conn = dial(t, f.addr)
	f.limits, f.authz = ratelimitv3.NewRateLimitServiceClient(f.conn), authv3.NewAuthorizationClient(f.conn)
	return f
}

func snapshot(t testing.TB, source string) *feed.Snapshot {
	t.Helper()
	doc, report := policy.Parse([]byte(source))
	if doc == nil {
		t.Fatalf("policy of the test: %v", report.Problems)
	}
	compiled, err := policy.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &feed.Snapshot{Version: 42, Digest: compiled.Digest, Compiled: compiled}
}

// serve starts a door on loopback until the test ends.
func serve(t testing.TB, g decider, c Config) (*Server, string) {
	t.Helper()
	s, err := New(g, c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

func dial(t testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// tenant makes a tenant on the plan free and returns a key of it.
func (f *fixture) tenant(id string) string {
	f.t.Helper()
	secret, kid, err := apikey.Generate(apikey.Live, rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	f.directory.mu.Lock()
	defer f.directory.mu.Unlock()
	f.directory.keys[kid] = policy.KeyRecord{
		KID: kid, Tenant: id, Credential: "crd_" + id, Environment: apikey.Live, Digest: apikey.Digest(secret.Reveal()), State: policy.KeyActive,
	}
	f.directory.tenants[id] = policy.TenantRecord{ID: id, Plan: "free", State: policy.TenantActive}
	return secret.Reveal()
}

// descriptor is one of pairs of key and value.
func descriptor(pairs ...string) *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// about asks of ten_a's request for a path.
func about(method, path string) *commonv3.RateLimitDescriptor {
	return descriptor(keyTenant, "ten_a", keyMethod, method, keyPath, path)
}

// ask makes one call, which has to succeed.
func (f *fixture) ask(descriptors ...*commonv3.RateLimitDescriptor) *ratelimitv3.RateLimitResponse {
	f.t.Helper()
	return f.askFor(0, descriptors...)
}

func (f *fixture) askFor(hits uint32, descriptors ...*commonv3.RateLimitDescriptor) *ratelimitv3.RateLimitResponse {
	f.t.Helper()
	out, err := f.limits.ShouldRateLimit(f.t.Context(), &ratelimitv3.RateLimitRequest{Domain: DefaultDomain, Descriptors: descriptors, HitsAddend: hits})
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// fails makes one call, which has to fail with a code.
func (f *fixture) fails(want codes.Code, r *ratelimitv3.RateLimitRequest) *status.Status {
	f.t.Helper()
	_, err := f.limits.ShouldRateLimit(f.t.Context(), r)
	st, _ := status.FromError(err)
	if st.Code() != want {
		f.t.Errorf("%v: got %v, want %v", r, err, want)
	}
	return st
}

// request is one of descriptors in the usual domain.
func request(descriptors ...*commonv3.RateLimitDescriptor) *ratelimitv3.RateLimitRequest {
	return &ratelimitv3.RateLimitRequest{Domain: DefaultDomain, Descriptors: descriptors}
}

// headers are the response's fields that a caller gets.
func headers(r *ratelimitv3.RateLimitResponse) http.Header {
	h := http.Header{}
	for _, f := range r.GetResponseHeadersToAdd() {
		h.Add(f.GetKey(), f.GetValue())
	}
	return h
}

// check asks the HTTP door for forward authentication.
func (f *fixture) check(peer, method, path string, h http.Header) *http.Response {
	f.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/v1/check", nil)
	r.RemoteAddr, r.Header = net.JoinHostPort(peer, "4711"), h.Clone()
	r.Header.Set("X-Forwarded-Method", method)
	r.Header.Set("X-Forwarded-Uri", path)
	w := httptest.NewRecorder()
	f.g.DecideHandler().ServeHTTP(w, r)
	return w.Result()
}
