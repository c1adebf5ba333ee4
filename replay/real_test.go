package replay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/replay"
	"github.com/headgate/headgate/usage"
)

// world is what a real gateway needs besides its store: a policy, tenants, and someone
// who takes its log.
type world struct {
	snapshot *feed.Snapshot
	tenants  map[string]policy.TenantRecord

	sent chan struct{} // rings when a batch has come

	mu  sync.Mutex
	log memoryLog
}

func (w *world) Current() *feed.Snapshot { return w.snapshot }
func (w *world) Status() feed.Status     { return feed.Status{Version: w.snapshot.Version} }
func (w *world) Place() policy.Place     { return policy.Place{Epoch: "e"} }
func (w *world) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (w *world) Key(context.Context, string) (policy.KeyRecord, error) {
	return policy.KeyRecord{}, feed.ErrUnknown
}

func (w *world) Tenant(_ context.Context, id string) (policy.TenantRecord, error) {
	if t, ok := w.tenants[id]; ok {
		return t, nil
	}
	return policy.TenantRecord{}, feed.ErrUnknown
}

func (w *world) find(id string) (policy.TenantRecord, bool) { t, ok := w.tenants[id]; return t, ok }

func (w *world) Beat(context.Context, policy.Heartbeat) (int, time.Time, error) {
	return 1, time.Now(), nil
}
func (w *world) SendUsage(context.Context, usage.Batch) error { return nil }
func (w *world) DecisionSalt(context.Context) ([]byte, error) { return make([]byte, 32), nil }

// SendDecisions takes a batch as it is on the wire.
func (w *world) SendDecisions(_ context.Context, b *decisionlog.Batch, body []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	head := *b
	head.Body = slices.Clone(body)
	w.log = append(w.log, head)
	select {
	case w.sent <- struct{}{}:
	default:
	}
	return nil
}

// real is a gateway that decides and is asked directly. Run is not running while it
// is, so that nothing but the virtual clock moves.
type real struct {
	*gateway.Gateway
	world *world
}

func newReal(t testing.TB, d *policy.Document, store limiter.Store, now func() time.Time, tenants map[string]policy.TenantRecord) *real {
	t.Helper()
	c, err := policy.Compile(d)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{snapshot: &feed.Snapshot{Version: 7, Digest: c.Digest, Compiled: c}, tenants: tenants, sent: make(chan struct{}, 1)}
	g, err := gateway.New(gateway.Config{
		Policies: w, Directory: w, Reporter: w, Store: store, Now: now, Identity: gateway.Identity{ID: "gw_a", Boot: "b"},
		DecideListen: "127.0.0.1:0", Budget: time.Second, DecisionLogRate: 1_000_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &real{g, w}
}

// logged ends the gateway and returns its log.
func (r *real) logged(t testing.TB) memoryLog {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return r.world.inOrder()
}

func (w *world) inOrder() memoryLog {
	slices.SortStableFunc(w.log, func(a, b decisionlog.Batch) int { return int(a.From - b.From) })
	return w.log
}

// running runs the gateway until the returned function has its log. Values are hashed
// in the same way on all gateways then.
func (r *real) running(t testing.TB) (logged func() memoryLog) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	in := gateway.Inbound{Method: "GET", Host: "api.example", EscapedPath: "/b", ClientKnown: true, Tenant: "ten_warm", UserKnown: true, Ends: true}
	v := r.Decide(ctx, &in)
	v.End()
	select {
	case <-r.world.sent: // the secret for hashes was fetched before
	case err := <-ended:
		t.Fatalf("gateway ended: %v", err)
	}
	return func() memoryLog {
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		return r.world.inOrder()
	}
}

// randomPolicy has limits of all kinds with small numbers.
func randomPolicy(rng *rand.Rand, concurrency bool) string {
	rate := func() string {
		return fmt.Sprintf("rate: %d/%s, burst: %d", 1+rng.IntN(40), []string{"second", "minute", "hour"}[rng.IntN(3)], 8+rng.IntN(12))
	}
	mode := func() string {
		if rng.IntN(5) == 0 {
			return ", mode: shadow"
		}
		return ""
	}
	limit := func(name, per string) string {
		counts := []string{"cost", "requests"}[rng.IntN(2)]
		return fmt.Sprintf(`{name: %s, per: %s, counts: %s, %s%s}`, name, per, counts, rate(), mode())
	}
	some := func(limits ...string) string {
		var list []string
		for i, per := range limits {
			if rng.IntN(2) == 0 {
				list = append(list, limit(fmt.Sprint("l", i), per))
			}
		}
		return strings.Join(list, ", ")
	}
	places := ""
	if concurrency {
		places = fmt.Sprintf("\n    concurrency: {per: tenant, max: %d, lease: 60s%s}", 1+rng.IntN(3), mode())
	}
	own := []string{"tenant", "credential", "user", "ip", `"header:X-Region"`, "[tenant, ip]", "[ip, 'header:X-Region']"}
	return `
apiVersion: headgate/v1
user: {header: X-User-Id}
client_ip: {trusted_proxies: [10.0.0.0/8]}
global: {limits: [` + some("global", "ip") + `]}
shared: [` + limit("common", "tenant") + `]
plans:
  free:
    limits: [` + some("tenant", "credential") + `]
    quota: {amount: ` + fmt.Sprint(20+rng.IntN(100)) + `, counts: cost, period: day, time_zone: UTC, over: block` + mode() + `}
  pro:
    limits: [` + some("tenant") + `]
    quota: {amount: 30, max: ` + fmt.Sprint(40+rng.IntN(100)) + `, counts: requests, period: day, time_zone: UTC, over: bill}
routes:
  - name: a
    match: ["GET /a/{id}", "POST other.example/a"]
    identity: api_key
    motive: fairness
    cost: ` + fmt.Sprint(1+rng.IntN(3)) + `
    uses: [common]
    limits: [` + "{name: first, per: tenant, " + rate() + "}, " + some(own...) + `]` + places + `
    on_store_failure: {mode: closed}
  - name: b
    match: ["/b"]
    identity: api_key
    motive: fairness
    cost: {reserve: 3, settle_header: X-Cost}
    limits: [` + "{name: first, per: tenant, " + rate() + "}, " + some(own...) + `]` + places + `
    on_store_failure: {mode: open, fallback: {rate: 5/minute, burst: 5}}
  - name: graphql
    match: ["POST /graphql"]
    identity: api_key
    motive: fairness
    cost: {graphql: {max: 8, default_list_size: 2}}
    limits: [` + some("tenant") + `]
    on_store_failure: {mode: closed}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [` + some("ip", `"body:username"`, "[ip, 'body:username']", "global") + `]
    on_store_failure: {mode: closed}
  - name: me
    match: ["GET /me"]
    identity: user
    motive: fairness
    limits: [` + some("user", "ip", "[user, ip]") + `]
    on_store_failure: {mode: closed}
`
}

func randomTenants(rng *rand.Rand) map[string]policy.TenantRecord {
	tenants := map[string]policy.TenantRecord{}
	for _, id := range []string{"ten_a", "ten_b", "ten_c"} {
		r := policy.TenantRecord{ID: id, Plan: []string{"free", "pro"}[rng.IntN(2)], State: policy.TenantActive}
		if rng.IntN(3) == 0 {
			r.Overrides = []policy.Override{{Limit: "shared:common", Rate: "30/second", Burst: new(int64(20)), Reason: "x"}}
		}
		tenants[id] = r
	}
	return tenants
}

// randomRequest is any request of the policy's routes, or of none.
func randomRequest(rng *rand.Rand) gateway.Inbound {
	in := gateway.Inbound{
		Host: "api.example", Method: "GET", Header: http.Header{}, ClientKnown: true, Ends: rng.IntN(2) == 0,
		Client: netip.MustParseAddr([]string{"203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8::2", "2001:db8:1::1"}[rng.IntN(5)]),
		Tenant: []string{"ten_a", "ten_b", "ten_c"}[rng.IntN(3)], UserKnown: true, User: []string{"", "anna", "bert"}[rng.IntN(3)],
	}
	if region := []string{"", "eu", "us", "eu"}[rng.IntN(4)]; region != "" {
		in.Header.Set("X-Region", region)
	}
	json := func(text string) {
		in.Body = &gateway.Body{ContentType: "application/json", Peek: []byte(text), Whole: true}
	}
	switch rng.IntN(8) {
	case 0, 1, 2:
		in.EscapedPath = fmt.Sprintf("/a/%%C3%%A4%d", rng.IntN(3))
	case 3:
		in.EscapedPath = "/b"
		in.Hits = int64(rng.IntN(3))
	case 4:
		in.Method, in.EscapedPath = "POST", "/graphql"
		json(fmt.Sprintf(`{"query": "{%s}"}`, strings.Repeat(" a", 1+rng.IntN(4))))
	case 5:
		in.Method, in.EscapedPath, in.Tenant = "POST", "/login", ""
		json([]string{`{"username": "anna"}`, `{"username": "Bert"}`, `{}`, `{"username": `}[rng.IntN(4)])
	case 6:
		in.EscapedPath, in.Tenant = "/me", ""
	default:
		in.Method, in.Host, in.EscapedPath = "POST", "other.example", "/a"
		if rng.IntN(2) == 0 {
			in.EscapedPath, in.Cost = "/b", int64(1+rng.IntN(6))
		}
		if rng.IntN(4) == 0 {
			in.RouteName, in.EscapedPath = "a", ""
		}
	}
	return in
}

// drive sends random requests, ends them and settles some.
func drive(t *testing.T, rng *rand.Rand, g *real, now *int64, requests int, ends bool) (admitted, refused int) {
	t.Helper()
	type underWay struct {
		v     gateway.Verdict
		until int64
	}
	var running []underWay
	finish := func(all bool) {
		running = slices.DeleteFunc(running, func(u underWay) bool {
			if !all && u.until > *now {
				return false
			}
			if u.v.Lease == "" {
				u.v.End()
				return true
			}
			if rng.IntN(2) == 0 {
				_ = g.Settle(context.Background(), u.v.Lease, int64(rng.IntN(9))) // an error: it settles nothing
			}
			if err := g.Release(context.Background(), u.v.Lease); err != nil {
				t.Fatal(err)
			}
			return true
		})
	}
	for range requests {
		*now += 1 + rng.Int64N(400_000)
		if rng.IntN(40) == 0 {
			finish(true)
			*now += rng.Int64N(2 * 3_600_000_000)
		}
		finish(false)
		*now++ // what ends at a moment has ended when the next is decided
		in := randomRequest(rng)
		v := g.Decide(context.Background(), &in)
		if !v.Allowed {
			refused++
			continue
		}
		admitted++
		if ends {
			running = append(running, underWay{v, *now + rng.Int64N(3_000_000)})
		}
	}
	finish(true)
	return admitted, refused
}

func TestCompare_I09_ReplayingTheLiveVersionDiffersInNothing(t *testing.T) {
	t.Parallel()
	admitted, refused := 0, 0
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		d := documentOf(t, randomPolicy(rng, true))
		now := start
		clock := func() time.Time { return time.UnixMicro(now) }
		g := newReal(t, d, memstore.New(clock), clock, randomTenants(rng))
		a, r := drive(t, rng, g, &now, 400, true)
		admitted, refused = admitted+a, refused+r
		got, err := replay.Engine{}.Compare(t.Context(), d, d, g.logged(t), g.world.find, nil)
		if err != nil || got.Differs != 0 || got.Refused.Requests != 0 || got.Admitted.Requests != 0 || got.Sample != decisionlog.Whole || len(got.Notes) != 0 {
			t.Errorf("seed %d: %v, %+v", seed, err, got)
		}
		if got.Entries < 300 || got.Both.Admitted != int64(a) {
			t.Errorf("seed %d: %d entries, %d of %d admitted", seed, got.Entries, got.Both.Admitted, a)
		}
	}
	if admitted < 1500 || refused < 1500 {
		t.Errorf("%d admitted and %d refused: too few of one", admitted, refused)
	}
}

func TestCompare_I09_ADraftComesOutAsARealGatewayWouldDecide(t *testing.T) {
	t.Parallel()
	changes := 0
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		live, draft := documentOf(t, randomPolicy(rng, false)), documentOf(t, randomPolicy(rng, false))
		tenants := randomTenants(rng)
		now := start
		clock := func() time.Time { return time.UnixMicro(now) }
		one := newReal(t, live, memstore.New(clock), clock, tenants)
		two := newReal(t, draft, memstore.New(clock), clock, tenants)
		var want decisionlog.Comparison
		for range 400 {
			now += 1 + rng.Int64N(400_000)
			in := randomRequest(rng)
			other := in
			a, b := one.Decide(context.Background(), &in), two.Decide(context.Background(), &other)
			switch {
			case a.Reason == "": // it came to no limiter
			case a.Allowed && b.Allowed:
				want.Both.Admitted++
			case a.Allowed:
				want.Refused.Requests++
			case b.Allowed:
				want.Admitted.Requests++
			default:
				want.Both.Refused++
			}
		}
		got, err := replay.Engine{}.Compare(t.Context(), live, draft, one.logged(t), one.world.find, nil)
		if err != nil || got.Differs != 0 || len(got.Notes) != 0 && !asksOtherwise(got.Notes) {
			t.Errorf("seed %d: %v, %d differ, %q", seed, err, got.Differs, got.Notes)
		}
		if asksOtherwise(got.Notes) { // the draft counts by what the log does not have
			continue
		}
		if got.Both != want.Both || got.Refused.Requests != want.Refused.Requests || got.Admitted.Requests != want.Admitted.Requests {
			t.Errorf("seed %d: both %+v, refused %d, admitted %d; want %+v, %d, %d", seed, got.Both, got.Refused.Requests, got.Admitted.Requests,
				want.Both, want.Refused.Requests, want.Admitted.Requests)
		}
		changes += int(want.Refused.Requests + want.Admitted.Requests)
	}
	if changes < 250 {
		t.Errorf("%d changes in all: too few", changes)
	}
}

func asksOtherwise(notes []string) bool {
	return slices.ContainsFunc(notes, func(n string) bool {
		return strings.HasPrefix(n, "The log does not have") || strings.HasPrefix(n, "The log does not name the users")
	})
}
