package probe_test

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/probe"
	"github.com/headgate/headgate/usage"
)

const source = `
apiVersion: headgate/v1
credentials: {headers: [{name: X-API-Key}], invalid: {per: ip, rate: 30/minute, burst: 30}}
plans:
  free:
    limits: [{name: requests, per: tenant, rate: 60/hour, burst: 5}]
    quota: {amount: 100, period: day, over: block}
  none:
    limits: [{name: requests, per: tenant, rate: 0, burst: 0}]
  paid:
    limits: []
    quota: {amount: 3, period: day, over: block}
routes:
  - name: report
    match: ["GET /v1/reports/{id}"]
    identity: api_key
    motive: fairness
    cost: 2
    concurrency: {per: tenant, max: 1, lease: 30s}
    on_store_failure: {mode: open, fallback: {rate: 30/minute, burst: 10}}
  - name: graphql
    match: ["POST /graphql"]
    identity: api_key
    motive: fairness
    cost: {graphql: {max: 3, default_list_size: 2, list_arguments: [first]}}
    limits: [{name: points, per: tenant, rate: 500/minute, burst: 200}]
    on_store_failure: {mode: closed}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits:
      - {name: per-account, per: "body:username", rate: 1/hour, burst: 2}
      - {name: per-ip, per: ip, rate: 5/minute, burst: 5}
    on_store_failure: {mode: closed}
`

// world is a policy and tenants that stay, beside a real Redis.
type world struct {
	snapshot *feed.Snapshot
	tenants  map[string]policy.TenantRecord
	server   *testkit.RedisServer
	store    *redisstore.Store
	client   *redis.Client
}

func (w *world) Current() *feed.Snapshot       { return w.snapshot }
func (w *world) Status() feed.Status           { return feed.Status{} }
func (w *world) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (w *world) Place() policy.Place           { return policy.Place{Epoch: "e"} }

func (w *world) Key(context.Context, string) (policy.KeyRecord, error) {
	return policy.KeyRecord{}, feed.ErrUnknown
}

func (w *world) Tenant(_ context.Context, id string) (policy.TenantRecord, error) {
	if t, ok := w.tenants[id]; ok {
		return t, nil
	}
	return policy.TenantRecord{}, feed.ErrUnknown
}

type silent struct{}

func (silent) Beat(context.Context, policy.Heartbeat) (int, time.Time, error) {
	return 1, time.Time{}, nil
}
func (silent) SendUsage(context.Context, usage.Batch) error { return nil }

func newWorld(t *testing.T) (*world, *gateway.Gateway, *probe.Probe) {
	t.Helper()
	doc, report := policy.Parse([]byte(source))
	if doc == nil {
		t.Fatalf("policy: %v", report.Problems)
	}
	compiled, err := policy.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{snapshot: &feed.Snapshot{Version: 7, Digest: compiled.Digest, Compiled: compiled}, tenants: map[string]policy.TenantRecord{}, server: testkit.Redis(t)}
	for id, plan := range map[string]string{"ten_free": "free", "ten_none": "none", "ten_paid": "paid", "ten_lost": "gone"} {
		w.tenants[id] = policy.TenantRecord{ID: id, Plan: plan, State: policy.TenantActive}
	}
	w.tenants["ten_off"] = policy.TenantRecord{ID: "ten_off", Plan: "free", State: policy.TenantSuspended}
	if w.store, err = redisstore.Open(w.server.URL, redisstore.Options{Deployment: "test", Budget: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	options, err := redis.ParseURL(w.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	w.client = redis.NewClient(options)
	t.Cleanup(func() { _ = w.client.Close() })
	g, err := gateway.New(gateway.Config{
		Policies: w, Directory: w, Store: w.store, Reporter: silent{}, Identity: gateway.Identity{ID: "gw", Boot: "b"}, DecideListen: "127.0.0.1:0",
		Budget: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := probe.New(probe.Config{Policies: w, Directory: w, Store: w.store})
	if err != nil {
		t.Fatal(err)
	}
	return w, g, p
}

// dump is everything that Redis holds.
func (w *world) dump(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	keys, err := w.client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if out[key], err = w.client.Dump(t.Context(), key).Result(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func ask(t *testing.T, p *probe.Probe, q probe.Question) probe.Answer {
	t.Helper()
	answers, err := p.Ask(t.Context(), q)
	if err != nil || len(answers) != 1 {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	return answers[0]
}

func TestProbe_AnswersAsTheGatewayWouldAndChargesNobody(t *testing.T) {
	t.Parallel()
	w, g, p := newWorld(t)
	in := func(cost int64) *gateway.Inbound {
		return &gateway.Inbound{Method: "GET", EscapedPath: "/v1/reports/1", Tenant: "ten_free", Cost: cost, Header: http.Header{}, Ends: true, ClientKnown: true, Client: netip.MustParseAddr("192.0.2.1")}
	}
	v := g.Decide(t.Context(), in(4))
	if !v.Allowed {
		t.Fatalf("%+v", v)
	}
	v.End()
	before := w.dump(t)
	var sure sync.WaitGroup
	for range 4 {
		sure.Go(func() {
			for range 50 {
				a := ask(t, p, probe.Question{Tenant: "ten_free", Route: "report"})
				if a.Allowed || a.Code != gateway.CodeQuotaExceeded || a.DecidingLimit() != "plan.requests" || a.RetryAfterMicros <= 0 {
					t.Errorf("allowed %t, %s by %s, %d µs", a.Allowed, a.Code, a.DecidingLimit(), a.RetryAfterMicros)
				}
			}
		})
	}
	sure.Wait()
	after := w.dump(t)
	for key, value := range before {
		if after[key] != value {
			t.Errorf("a question changed %s", key)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d keys became %d", len(before), len(after))
	}
	refused := g.Decide(t.Context(), in(2))
	a := ask(t, p, probe.Question{Tenant: "ten_free", Route: "report"})
	if refused.Allowed || refused.DecidingLimit() != a.DecidingLimit() || len(refused.Limits) == 0 || len(a.Limits) != 3 {
		t.Errorf("the gateway: %+v, the probe: %+v", refused.Limits, a.Limits)
	}
	if apart := refused.RetryAfterMicros - a.RetryAfterMicros; apart < 0 || apart > 60_000_000 {
		t.Errorf("waits of %d and %d µs", refused.RetryAfterMicros, a.RetryAfterMicros)
	}
}

func TestProbe_TellsEveryRefusal(t *testing.T) {
	t.Parallel()
	_, g, p := newWorld(t)
	hold := g.Decide(t.Context(), &gateway.Inbound{Method: "GET", EscapedPath: "/v1/reports/1", Tenant: "ten_free", Cost: 1, Header: http.Header{}, Ends: true, ClientKnown: true})
	if !hold.Allowed {
		t.Fatalf("%+v", hold)
	}
	defer hold.End()
	spend := g.Decide(t.Context(), &gateway.Inbound{Method: "POST", EscapedPath: "/graphql", Tenant: "ten_paid", Cost: 3, Header: http.Header{}, Ends: true, ClientKnown: true})
	if !spend.Allowed {
		t.Fatalf("%+v", spend)
	}
	for name, want := range map[string]struct {
		ask    probe.Question
		code   gateway.Code
		reason limiter.Reason
		limit  string
	}{
		"concurrency":    {probe.Question{Tenant: "ten_free", Route: "report"}, gateway.CodeQuotaExceeded, limiter.ReasonConcurrency, "route:report.concurrency"},
		"quota":          {probe.Question{Tenant: "ten_paid", Route: "graphql"}, gateway.CodeQuotaExceeded, limiter.ReasonQuota, "plan.quota"},
		"burst 0":        {probe.Question{Tenant: "ten_none", Route: "report"}, gateway.CodeQuotaExceeded, limiter.ReasonBlocked, "plan.requests"},
		"a cost too big": {probe.Question{Tenant: "ten_free", Route: "report", Cost: 6}, gateway.CodeCostExceedsBurst, limiter.ReasonCostExceedsBurst, "plan.requests"},
		"suspended":      {probe.Question{Tenant: "ten_off", Route: "report"}, gateway.CodeTenantSuspended, "", ""},
		"unknown tenant": {probe.Question{Tenant: "ten_who", Route: "report"}, gateway.CodeInvalidCredential, "", ""},
		"a lost plan":    {probe.Question{Tenant: "ten_lost", Route: "report"}, gateway.CodePlanUnknown, "", ""},
		"a bad key":      {probe.Question{Key: "hg_live_nonsense", Route: "report"}, gateway.CodeMalformedCredential, "", ""},
		"no route":       {probe.Question{Tenant: "ten_free", Method: "GET", Path: "/elsewhere"}, gateway.CodeNoRoute, "", ""},
		"an odd path":    {probe.Question{Tenant: "ten_free", Path: "/v1//reports"}, gateway.CodeAmbiguousPath, "", ""},
	} {
		a := ask(t, p, want.ask)
		if a.Allowed || a.Code != want.code || a.Reason != want.reason || a.DecidingLimit() != want.limit {
			t.Errorf("%s: allowed %t, %s, %q by %q", name, a.Allowed, a.Code, a.Reason, a.DecidingLimit())
		}
	}
}

func TestProbe_ALostQuotaIsNoUnusedOne(t *testing.T) {
	t.Parallel()
	_, _, p := newWorld(t)
	if a := ask(t, p, probe.Question{Tenant: "ten_paid", Route: "graphql"}); !a.Allowed {
		t.Errorf("without a ledger: refused for %q", a.Reason)
	}
	if a := ask(t, p, probe.Question{Tenant: "ten_paid", Route: "graphql", Recorded: true}); a.Allowed || a.Status != http.StatusServiceUnavailable || a.Degraded || a.Reason != limiter.ReasonClosed {
		t.Errorf("with one: allowed %t, %d for %q, degraded %t", a.Allowed, a.Status, a.Reason, a.Degraded)
	}
}

func TestProbe_LooksUpAccountsAndAddressesAsTheyAreCounted(t *testing.T) {
	t.Parallel()
	_, g, p := newWorld(t)
	login := func(account string) {
		body := []byte(`{"username":"` + account + `"}`)
		g.Decide(t.Context(), &gateway.Inbound{Method: "POST", EscapedPath: "/login", Client: netip.MustParseAddr("192.0.2.7"), ClientKnown: true, Header: http.Header{},
			Body: &gateway.Body{ContentType: "application/json", Peek: body, Whole: true}, Ends: true})
	}
	login("ada")
	login("ada")
	q := probe.Question{Route: "login", Client: netip.MustParseAddr("192.0.2.7"), Fields: map[string]string{"username": "ada"}}
	if a := ask(t, p, q); a.Allowed || a.DecidingLimit() != "route:login.per-account" {
		t.Errorf("ada: %t by %s", a.Allowed, a.DecidingLimit())
	}
	q.Fields = map[string]string{"username": "grace"}
	if a := ask(t, p, q); !a.Allowed {
		t.Errorf("grace: refused by %s", a.DecidingLimit())
	}
	for _, other := range []string{"alan", "edsger", "barbara"} {
		login(other)
	}
	if a := ask(t, p, q); a.Allowed || a.DecidingLimit() != "route:login.per-ip" {
		t.Errorf("the address: %t by %s", a.Allowed, a.DecidingLimit())
	}
}

func TestProbe_AssumesACostWhereItIsComputed(t *testing.T) {
	t.Parallel()
	_, _, p := newWorld(t)
	for _, q := range []probe.Question{{Tenant: "ten_free", Route: "graphql"}, {Tenant: "ten_free", Method: "POST", Path: "/graphql"}} {
		if a := ask(t, p, q); !a.Allowed || !a.CostAssumed || a.Cost != 1 {
			t.Errorf("%+v: allowed %t, cost %d, assumed %t", q, a.Allowed, a.Cost, a.CostAssumed)
		}
	}
	if a := ask(t, p, probe.Question{Tenant: "ten_free", Route: "report"}); a.CostAssumed || a.Cost != 2 {
		t.Errorf("a cost that is known: %d, assumed %t", a.Cost, a.CostAssumed)
	}
}

func TestProbe_SaysThatRedisIsAway(t *testing.T) {
	t.Parallel()
	w, _, p := newWorld(t)
	w.server.Kill()
	if a := ask(t, p, probe.Question{Tenant: "ten_free", Route: "graphql"}); a.Allowed || !a.Degraded || len(a.Limits) != 0 || a.Status != http.StatusServiceUnavailable {
		t.Errorf("%+v", a)
	}
	if p.Version() != 7 || p.Compiled() == nil {
		t.Errorf("version %d", p.Version())
	}
}

func TestProbe_New_NamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	if _, err := probe.New(probe.Config{}); err == nil {
		t.Error("made of nothing")
	}
}

func TestProbe_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	_, _, p := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	cancel()
	if err := <-done; err == nil {
		t.Error("it ended without saying why")
	}
	if answers, err := p.Ask(ctx, probe.Question{Tenant: "ten_free", Route: "report"}); err == nil {
		t.Errorf("%d answers after the end", len(answers))
	}
	if answers, err := p.Ask(t.Context()); err != nil || len(answers) != 0 {
		t.Errorf("nothing asked: %d answers, %v", len(answers), err)
	}
}
