package replay_test

import (
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
	"github.com/headgate/headgate/replay"
)

// onRedis is a store of a Redis of its own.
func onRedis(t *testing.T, url string) limiter.Store {
	t.Helper()
	store, err := redisstore.Open(url, redisstore.Options{Deployment: "replay", Budget: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// slowPolicy refills so slowly that what happens within a test happens at once.
const slowPolicy = `
apiVersion: headgate/v1
user: {header: X-User-Id}
client_ip: {trusted_proxies: [10.0.0.0/8]}
global: {limits: [{name: all, per: global, counts: requests, rate: 40/day, burst: 40}]}
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 12/day, burst: 12}]
    quota: {amount: 35, counts: cost, period: lifetime, over: block}
routes:
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: per-account, per: "body:username", rate: 5/day, burst: 5}, {name: per-ip, per: ip, rate: 8/day, burst: 8}]
    on_store_failure: {mode: closed}
  - name: report
    match: ["GET /reports/{id}"]
    identity: api_key
    motive: fairness
    cost: 5
    limits: [{name: region, per: [tenant, "header:X-Region"], rate: 20/day, burst: 20}, {name: key, per: credential, rate: 50/day, burst: 50}]
    concurrency: {per: tenant, max: 2, lease: 60s}
    on_store_failure: {mode: closed}
  - name: me
    match: ["GET /me"]
    identity: user
    motive: fairness
    limits: [{name: each, per: user, rate: 3/day, burst: 3}]
    on_store_failure: {mode: closed}
`

const slowTests = `
tests:
  - name: accounts
    given: {ip: 203.0.113.7}
    steps:
      - {send: 6, request: POST /login, body: {username: anna}}
      - {send: 4, request: POST /login, body: {username: Bert}}
  - name: regions
    given: {plan: free}
    steps:
      - {send: 5, request: GET /reports/1, headers: {X-Region: eu}}
      - {send: 9, request: GET /reports/ä, headers: {x-region: us}}
      - {send: 3, request: GET /reports/2}
  - name: places
    given: {plan: free}
    steps: [{send: 3, lasts: 1h, request: GET /reports/1}, {send: 2, request: GET /nowhere}]
  - name: users
    given: {user: anna}
    steps: [{send: 5, request: GET /me}, {request: GET /reports/1}]
`

func TestTest_ARealGatewayOnRealRedisAnswersTheSame(t *testing.T) {
	t.Parallel()
	d, suite := documentOf(t, slowPolicy), suiteOf(t, slowTests)
	results, err := replay.Engine{}.Test(t.Context(), d, suite, nil)
	if err != nil {
		t.Fatal(err)
	}
	tenants := map[string]policy.TenantRecord{"ten_x": {ID: "ten_x", Plan: "free", State: policy.TenantActive}}
	for i, test := range suite.Tests {
		server := testkit.Redis(t)
		g := newReal(t, d, onRedis(t, server.URL), time.Now, tenants)
		for j := range test.Steps {
			got := sendReally(t, g, &test, &test.Steps[j])
			want := results[i].Steps[j]
			got.Reason, got.RetryMillis = want.Reason, want.RetryMillis // they depend on the time of day
			if got != want {
				t.Errorf("%s, step %d: a gateway says %+v, the test %+v", test.Name, j+1, got, want)
			}
		}
	}
}

func sendReally(t *testing.T, g *real, test *scenario.Test, s *scenario.Step) (got scenario.StepResult) {
	t.Helper()
	method, _, path := s.SplitRequest()
	for i := range s.Send {
		in := gateway.Inbound{Method: method, Host: "api.example", EscapedPath: path, Header: http.Header{}, ClientKnown: true, UserKnown: true, User: test.Given.User, Ends: true}
		in.Client = netip.MustParseAddr(cmp.Or(test.Given.IP, "203.0.113.250"))
		if test.Given.Plan != "" {
			in.Tenant = "ten_x"
		}
		for name, value := range s.Headers {
			in.Header.Set(name, value)
		}
		body, err := json.Marshal(s.Body)
		if err != nil {
			t.Fatal(err)
		}
		in.Body = &gateway.Body{ContentType: "application/json", Peek: body, Whole: true}
		v := g.Decide(t.Context(), &in)
		if v.Route != nil {
			got.Route = v.Route.Name
		}
		if v.Allowed {
			got.Admitted++
			if s.Lasts == 0 {
				v.End()
			}
			continue
		}
		if got.Refused++; got.Refused == 1 {
			got.At, got.RefusedBy = i+1, cmp.Or(v.DecidingLimit(), string(v.Code))
		}
	}
	return got
}

// fastPolicy refills while a test sends. It has neither places nor settlements, whose
// ends no Redis stamps with its time.
const fastPolicy = `
apiVersion: headgate/v1
user: {header: X-User-Id}
client_ip: {trusted_proxies: [10.0.0.0/8]}
global: {limits: [{name: all, per: global, rate: 40000/second, burst: 700}]}
shared: [{name: common, per: tenant, rate: 1000/second, burst: 40}]
plans:
  free: {limits: [{name: requests, per: tenant, counts: requests, rate: 2000/second, burst: 60}]}
  pro: {limits: [{name: requests, per: tenant, counts: requests, rate: 4000/second, burst: 100, mode: shadow}]}
routes:
  - name: a
    match: ["GET /a/{id}", "POST other.example/a"]
    identity: api_key
    motive: fairness
    uses: [common]
    limits: [{name: region, per: "header:X-Region", rate: 900/second, burst: 50}, {name: own, per: tenant, rate: 2000/second, burst: 70}]
    on_store_failure: {mode: closed}
  - name: b
    match: ["/b"]
    identity: api_key
    motive: fairness
    limits: [{name: each, per: [user, ip], rate: 500/second, burst: 20}]
    on_store_failure: {mode: closed}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: account, per: "body:username", rate: 300/second, burst: 20}, {name: ip, per: ip, rate: 200/second, burst: 30}]
    on_store_failure: {mode: closed}
  - name: me
    match: ["GET /me"]
    identity: user
    motive: fairness
    limits: [{name: user, per: user, rate: 500/second, burst: 20}]
    on_store_failure: {mode: closed}
`

// Several gateways share a Redis, answer at the same time and remember refusals: what
// they logged is what the replay says.
func TestCompare_I09_TheLogOfRealGatewaysOnRedisDiffersInNothing(t *testing.T) {
	t.Parallel()
	server := testkit.Redis(t)
	rng := rand.New(rand.NewPCG(7, 7))
	d := documentOf(t, fastPolicy)
	tenants := randomTenants(rng)
	var log memoryLog
	replicas := []*real{newReal(t, d, onRedis(t, server.URL), time.Now, tenants), newReal(t, d, onRedis(t, server.URL), time.Now, tenants)}
	tenants["ten_warm"] = policy.TenantRecord{ID: "ten_warm", Plan: "free", State: policy.TenantActive}
	var logs []func() memoryLog
	for _, g := range replicas {
		logs = append(logs, g.running(t))
	}
	var callers sync.WaitGroup
	for c := range 8 {
		callers.Go(func() {
			own := rand.New(rand.NewPCG(uint64(c), 8))
			for range 150 {
				in := randomRequest(own)
				in.Ends = true
				v := replicas[c%2].Decide(context.Background(), &in)
				v.End()
			}
		})
	}
	callers.Wait()
	for i, logged := range logs {
		for _, b := range logged() {
			b.Boot = string(rune('a' + i))
			log = append(log, b)
		}
	}
	slices.SortStableFunc(log, func(a, b decisionlog.Batch) int { return cmp.Compare(a.From, b.From) })
	got, err := replay.Engine{}.Compare(t.Context(), d, d, log, replicas[0].world.find, nil)
	if err != nil || got.Differs != 0 || got.Refused.Requests != 0 || got.Admitted.Requests != 0 || got.Both.Admitted < 100 || got.Both.Refused < 100 {
		t.Errorf("%v, %+v", err, got)
	}
}

// A leased limit admits less at once than its burst says, for what is kept off it. A
// test that passes must not promise what gateways refuse.
func TestTest_LeasedLimitsAdmitNoMoreAtOnceThanARealGateway(t *testing.T) {
	t.Parallel()
	const doc = `
apiVersion: headgate/v1
global: {limits: [{name: all, per: global, rate: 7200/hour, burst: 100, sync: leased}]}
routes: [{name: x, match: ["/"], identity: ip, motive: fairness, on_store_failure: {mode: closed}}]
`
	d := documentOf(t, doc)
	suite := suiteOf(t, "tests: [{name: a, steps: [{send: 120, request: GET /x, expect: {refused_by: global.all}}]}]")
	results, err := replay.Engine{}.Test(t.Context(), d, suite, nil)
	if err != nil || !results[0].Passed {
		t.Fatalf("%+v (%v)", results, err)
	}
	g := newReal(t, d, onRedis(t, testkit.Redis(t).URL), time.Now, nil)
	began := time.Now()
	step := suite.Tests[0].Steps[0]
	got := sendReally(t, g, &suite.Tests[0], &step)
	// Tokens of a slice that was on its way when Redis refused are nobody's for as
	// long as slices live, 50 ms: they are asked for until they have come back.
	for step.Send = 1; time.Since(began) < 300*time.Millisecond; {
		got.Admitted += sendReally(t, g, &suite.Tests[0], &step).Admitted
	}
	refilled := int64(2*time.Since(began).Seconds()) + 1
	if want := results[0].Steps[0].Admitted; want >= 100 || got.Admitted < want || got.Admitted > want+refilled {
		t.Errorf("a gateway admits %d of 120 at once, the test says %d", got.Admitted, want)
	}
}
