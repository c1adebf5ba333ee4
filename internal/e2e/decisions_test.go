package e2e_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	control "github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/replay"
)

// loggedPolicy has a limit of every kind, with numbers that a test's traffic meets.
const loggedPolicy = `
apiVersion: headgate/v1
user: {header: X-User-Id}
client_ip: {trusted_proxies: [10.0.0.0/8]}
global: {limits: [{name: all, per: global, rate: 2000/second, burst: 2000}]}
shared: [{name: search, per: tenant, rate: 40/second, burst: 30}]
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 100/second, burst: 60}]
    quota: {amount: 150, counts: cost, period: month, alignment: calendar, time_zone: UTC, over: block}
  pro:
    limits: [{name: requests, per: tenant, counts: requests, rate: 300/second, burst: 100}]
routes:
  - name: slots
    match: ["/slots/"]
    identity: api_key
    motive: fairness
    concurrency: {per: tenant, max: 2, lease: 60s}
    on_store_failure: {mode: closed}
  - name: llm
    match: ["POST /llm"]
    identity: api_key
    motive: fairness
    cost: {reserve: 5, settle_header: X-Cost}
    limits: [{name: tokens, per: tenant, rate: 50/second, burst: 60}]
    on_store_failure: {mode: closed}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits:
      - {name: per-account, per: "body:username", rate: 20/second, burst: 5}
      - {name: per-ip, per: ip, rate: 30/second, burst: 20}
    on_store_failure: {mode: closed}
  - name: mine
    match: ["/me/"]
    identity: user
    motive: fairness
    limits: [{name: per-user, per: user, rate: 30/second, burst: 10}]
    on_store_failure: {mode: closed}
  - name: search
    match: ["/search/{what}"]
    identity: api_key
    motive: fairness
    uses: [search]
    limits:
      - {name: per-client, per: "header:X-Client", rate: 10/second, burst: 8}
      - {name: per-ip, per: ip, rate: 200/second, burst: 50, mode: shadow}
    on_store_failure: {mode: closed}
`

// loggedWorld is a policy and tenants that stay, as a gateway asks for them.
type loggedWorld struct {
	snapshot *feed.Snapshot
	tenants  map[string]policy.TenantRecord
}

func (w *loggedWorld) Current() *feed.Snapshot { return w.snapshot }
func (w *loggedWorld) Status() feed.Status     { return feed.Status{Version: w.snapshot.Version} }
func (w *loggedWorld) Place() policy.Place     { return policy.Place{Epoch: "e"} }
func (w *loggedWorld) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (w *loggedWorld) Key(context.Context, string) (policy.KeyRecord, error) {
	return policy.KeyRecord{}, feed.ErrUnknown
}

func (w *loggedWorld) Tenant(_ context.Context, id string) (policy.TenantRecord, error) {
	if t, ok := w.find(id); ok {
		return t, nil
	}
	return policy.TenantRecord{}, feed.ErrUnknown
}

func (w *loggedWorld) find(id string) (policy.TenantRecord, bool) {
	t, ok := w.tenants[id]
	return t, ok
}

// answers is what the gateways answered and did, to hold the log to.
type answers struct {
	admitted, refused, cached, ends, settles atomic.Int64
}

// caller asks one replica after the other at random for everything, ends what it holds
// and settles what it used.
func (w *answers) caller(ctx context.Context, t *testing.T, seed uint64, gateways []*gateway.Gateway) {
	rnd := rand.New(rand.NewPCG(seed, 5))
	for range 250 {
		g := gateways[rnd.IntN(len(gateways))]
		in := &gateway.Inbound{
			Method: "GET", Host: "api.example.com", Header: http.Header{"X-Client": {fmt.Sprint("client", rnd.IntN(3))}},
			Client: netip.AddrFrom4([4]byte{198, 51, 100, byte(rnd.IntN(3))}), ClientKnown: true,
		}
		tenant := fmt.Sprintf("ten_%d", rnd.IntN(5))
		switch rnd.IntN(6) {
		case 0:
			in.Method, in.EscapedPath = "POST", "/login"
			in.Body = &gateway.Body{ContentType: "application/json", Peek: fmt.Appendf(nil, `{"username": "user%d"}`, rnd.IntN(4)), Whole: true}
		case 1:
			in.EscapedPath, in.User, in.UserKnown = "/me/x", fmt.Sprint("user", rnd.IntN(3)), true
		case 2, 3:
			in.EscapedPath, in.Tenant, in.Ends = "/slots/x", tenant, rnd.IntN(2) == 0
		case 4:
			in.Method, in.EscapedPath, in.Tenant = "POST", "/llm", tenant
		default:
			in.EscapedPath, in.Tenant = fmt.Sprintf("/search/%d", rnd.IntN(50)), tenant
		}
		w.count(ctx, t, rnd, gateways, g.Decide(ctx, in))
	}
}

func (w *answers) count(ctx context.Context, t *testing.T, rnd *rand.Rand, gateways []*gateway.Gateway, v gateway.Verdict) {
	if v.Degraded || v.Reason == "" {
		t.Errorf("%s of %s: a decision that nobody made: %s, %s", v.Path, v.Tenant, v.Code, v.Cause)
		return
	}
	if v.Cached {
		w.cached.Add(1)
	}
	if !v.Allowed {
		w.refused.Add(1)
		return
	}
	w.admitted.Add(1)
	other := gateways[rnd.IntN(len(gateways))] // whoever it comes back to
	switch token := v.Lease; {
	case v.Route.Name == "slots":
		w.ends.Add(1)
		<-time.After(time.Duration(rnd.IntN(2000)) * time.Microsecond) // the request takes its time
		if token == "" {
			v.End() //nolint:contextcheck // a door ends requests whose callers have left
		} else if err := other.Release(ctx, token); err != nil {
			t.Error(err)
		}
	case token != "":
		w.settles.Add(1)
		// More or less than was reserved. What comes back is told to the other replicas only
		// within a second: what they refuse meanwhile the replay has to refuse, too.
		if err := other.Settle(ctx, token, rnd.Int64N(12)); err != nil {
			t.Error(err)
		}
	}
}

// TestDecisionLog_I09_ReplayingTheLiveVersionDiffersInNothing: three replicas decide for a
// dozen callers at once on a real Redis; what they log travels through Redis into
// PostgreSQL and out again, complete and in the order of the store, and the same
// policy replayed on it decides the same. A tighter one refuses more, and is told where.
func TestDecisionLog_I09_ReplayingTheLiveVersionDiffersInNothing(t *testing.T) {
	t.Parallel()
	doc, report := policy.Parse([]byte(loggedPolicy))
	if doc == nil {
		t.Fatal(report.Problems)
	}
	compiled, err := policy.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	world := &loggedWorld{snapshot: &feed.Snapshot{Version: 7, Digest: compiled.Digest, Compiled: compiled}, tenants: map[string]policy.TenantRecord{}}
	for i := range 5 {
		id, plan := fmt.Sprintf("ten_%d", i), "pro"
		if i == 0 {
			plan = "free"
		}
		world.tenants[id] = policy.TenantRecord{ID: id, Plan: plan, State: policy.TenantActive}
	}
	server := testkit.Redis(t)
	begun := time.Now().Add(-time.Minute)
	seen := world.traffic(t, server.URL)
	t.Logf("%d admitted, %d refused (%d of them without asking), %d places ended, %d settled",
		seen.admitted.Load(), seen.refused.Load(), seen.cached.Load(), seen.ends.Load(), seen.settles.Load())
	if seen.refused.Load() < 100 || seen.cached.Load() == 0 || seen.ends.Load() == 0 || seen.settles.Load() == 0 {
		t.Error("the traffic meets too little of the policy to show anything")
	}

	log := collected(t, server.URL, begun)
	seen.complete(t, log)
	same, err := replay.Engine{}.Compare(t.Context(), doc, doc, log, world.find, nil)
	if err != nil {
		t.Fatal(err)
	}
	if same.Differs != 0 || same.Refused.Requests != 0 || same.Admitted.Requests != 0 || same.Entries != seen.admitted.Load()+seen.refused.Load() {
		t.Errorf("replaying the live version: %+v", same)
	}
	tighter, _ := policy.Parse([]byte(strings.Replace(loggedPolicy, "rate: 30/second, burst: 10", "rate: 1/minute, burst: 1", 1)))
	if same, err = (replay.Engine{}).Compare(t.Context(), doc, tighter, log, world.find, nil); err != nil {
		t.Fatal(err)
	}
	if same.Refused.Requests == 0 || same.Admitted.Requests != 0 || len(same.Rows) == 0 || same.Rows[0].Limit != "route:mine.per-user" {
		t.Errorf("a tighter policy: %+v", same)
	}
}

// traffic runs three replicas until a dozen callers are done.
func (w *loggedWorld) traffic(t *testing.T, url string) *answers {
	t.Helper()
	var gateways []*gateway.Gateway
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range 3 {
		store, err := redisstore.Open(url, redisstore.Options{Deployment: "test", Budget: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		client := redisClient(t, url)
		reporter, err := feed.NewReporter(feed.Config{Client: client, Deployment: "test"})
		if err != nil {
			t.Fatal(err)
		}
		g, err := gateway.New(gateway.Config{
			Policies: w, Directory: w, Reporter: reporter, Store: store, Identity: gateway.Identity{ID: fmt.Sprintf("gw_%d", i), Boot: fmt.Sprintf("boot%d", i)},
			DecideListen: "127.0.0.1:0", Budget: 5 * time.Second, DecisionLogRate: 1_000_000, // a busy machine must not look like a broken store
		})
		if err != nil {
			t.Fatal(err)
		}
		gateways = append(gateways, g)
		running.Go(func() {
			if err := g.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	for _, g := range gateways {
		eventually(t, time.Minute, "a gateway is ready", func() error {
			if why := g.Unready(); len(why) > 0 {
				return fmt.Errorf("not yet: %v", why)
			}
			return nil
		})
	}
	seen := &answers{}
	var callers sync.WaitGroup
	for c := range 12 {
		callers.Go(func() { seen.caller(t.Context(), t, uint64(c), gateways) })
	}
	callers.Wait()
	stop() // each sends the rest of its log
	running.Wait()
	return seen
}

func redisClient(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// collected is the log as a console has it in PostgreSQL.
func collected(t *testing.T, url string, since time.Time) control.Log {
	t.Helper()
	store, err := db.Open(t.Context(), testkit.Postgres(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	publisher, err := feed.NewPublisher(feed.Config{Client: redisClient(t, url), Deployment: "test"})
	if err != nil {
		t.Fatal(err)
	}
	_, signer, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	decisions := control.NewDecisions(control.Deps{Store: store, Feed: publisher, Signer: signer, Deployment: "test"}, control.DecisionRetention{})
	if err := decisions.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := decisions.Range(t.Context(), since, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// complete holds the log to what was answered: nothing is missing, nothing is there twice,
// and each place in a call of the store is taken once.
func (w *answers) complete(t *testing.T, log control.Log) {
	t.Helper()
	var admitted, refused, cached, ends, settles int64
	type place struct {
		boot      string
		at, order int64
	}
	places, refs := map[place]bool{}, map[uint64]int64{}
	last, combined := int64(0), 0
	err := decisionlog.Merge(t.Context(), log, func(b *decisionlog.Batch, e *decisionlog.Entry) error {
		if b.Sample != decisionlog.Whole || b.Dropped != 0 || e.At < last {
			t.Fatalf("batch %+v, entry %+v after %d", b, e, last)
		}
		last = e.At
		switch {
		case e.Kind == decisionlog.KindEnd:
			ends++
		case e.Kind == decisionlog.KindSettle:
			settles++
		case e.Allowed:
			admitted++
		default:
			refused++
		}
		if e.Kind != decisionlog.KindDecision {
			if at, known := refs[e.Ref]; !known || e.At <= at {
				t.Errorf("%+v has no decision before it", e)
			}
			return nil
		}
		if e.Ref != 0 {
			refs[e.Ref] = e.At
		}
		if e.Cached {
			cached++
			return nil
		}
		if e.Order > 0 {
			combined++
		}
		p := place{b.Boot, e.At, int64(e.Order)}
		if places[p] {
			t.Errorf("two decisions at %+v", p)
		}
		places[p] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if admitted != w.admitted.Load() || refused != w.refused.Load() || cached != w.cached.Load() || ends != w.ends.Load() || settles != w.settles.Load() {
		t.Errorf("the log has %d admitted, %d refused (%d without asking), %d ends, %d settled", admitted, refused, cached, ends, settles)
	}
	if combined == 0 {
		t.Error("no call of the store decided several requests: their order is not tested")
	}
}
