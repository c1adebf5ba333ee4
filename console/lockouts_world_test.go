package console_test

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// lockoutPolicy has limits that count by tenant, address, account and everything.
const lockoutPolicy = `apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 60/hour, burst: 60}]
    quota: {amount: 100, period: month, alignment: calendar, time_zone: UTC, over: block}
  none:
    limits: [{name: requests, per: tenant, counts: requests, rate: 0/hour, burst: 0}]
routes:
  - name: api
    match: ["/"]
    identity: api_key
    motive: fairness
    concurrency: {per: tenant, max: 2, lease: 90s}
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits:
      - {name: per-account, per: "body:username", rate: 5/hour, burst: 5}
      - {name: per-ip, per: ip, rate: 20/hour, burst: 20}
      - {name: everyone, per: global, rate: 100/hour, burst: 100}
    on_store_failure: {mode: closed}
`

// tellingFeed also carries whom replicas refused, and notes whom they are to forget.
type tellingFeed struct {
	*fakeFeed
	mu        sync.Mutex
	reports   map[string]*usage.RefusedReport
	forgotten []int
}

func (f *tellingFeed) Refused(_ context.Context, replicas []string) ([]*usage.RefusedReport, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*usage.RefusedReport
	for _, id := range replicas {
		if r := f.reports[id]; r != nil {
			out = append(out, r)
		}
	}
	return out, nil
}

func (f *tellingFeed) ForgetRefusals(_ context.Context, groups []int) (policy.Place, error) {
	f.mu.Lock()
	f.forgotten = append(f.forgotten, groups...)
	f.mu.Unlock()
	defer f.lock()()
	f.place.Seq++
	f.ring()
	return f.place, nil
}

// lockWorld is a console over a real PostgreSQL and a real limiter's state.
type lockWorld struct {
	*env
	t        *testing.T
	feed     *tellingFeed
	redis    *testkit.RedisServer
	client   *redis.Client
	store    *redisstore.Store
	admin    *redisstore.Admin
	lockouts *console.Lockouts
	tenant   console.Tenant
}

func newLockWorld(t *testing.T) *lockWorld {
	t.Helper()
	e := newEnv(t)
	w := &lockWorld{env: e, t: t, feed: &tellingFeed{fakeFeed: e.feed, reports: map[string]*usage.RefusedReport{}}, redis: testkit.Redis(t)}
	o, err := redis.ParseURL(w.redis.URL)
	if err != nil {
		t.Fatal(err)
	}
	w.client = redis.NewClient(o)
	t.Cleanup(func() { _ = w.client.Close() })
	options := redisstore.Options{Deployment: testDeployment}
	w.store, w.admin = redisstore.New(w.client, options), redisstore.NewAdmin(w.client, options)
	e.clock.at = time.Now().UTC()
	e.feed.beats = []policy.Heartbeat{{ID: "gw_a", At: e.clock.now()}, {ID: "gw_b", At: e.clock.now()}}
	e.feed.now = e.clock.now()
	e.deps.Feed = w.feed
	e.fleet = console.NewFleet(e.deps)
	if _, err := e.policies.Publish(e.ctx, owner, []byte(lockoutPolicy), nil, 0, console.PublishOptions{Note: "first"}); err != nil {
		t.Fatal(err)
	}
	w.lockouts = console.NewLockouts(e.deps, e.fleet, w.admin)
	w.tenant = e.tenant(t, "Acme")
	return w
}

func tenantRow(id string) usage.RefusedRow { return usage.RefusedRow{Kind: "t", Tenant: id} }

func ipRow(ip string) usage.RefusedRow {
	return usage.RefusedRow{Kind: "i", Subject: usage.RawBytes(ip)}
}

// account is the row of a login's name, as gateways encode it.
func account(name string) usage.RefusedRow {
	b := binary.AppendUvarint(nil, uint64(len("body:username")))
	b = append(append(b, "body:username"...), 1)
	b = binary.AppendUvarint(b, uint64(len(name)))
	return usage.RefusedRow{Kind: "d", Subject: usage.RawBytes(append(b, name...))}
}

func limiterRow(r usage.RefusedRow) limiter.Row {
	return limiter.Row{Kind: limiter.RowKind(r.Kind[0]), Tenant: r.Tenant, Subject: string(r.Subject)}
}

// perHour is a limit of the policy above.
func perHour(n int64) policy.Numbers {
	out, err := policy.NumbersOf(policy.Rate{Tokens: n, Period: time.Hour}, n)
	if err != nil {
		panic(err)
	}
	return out
}

// draw takes n requests' worth of a limit at once and reports whether it could.
func (w *lockWorld) draw(row usage.RefusedRow, limit string, n policy.Numbers, cost int64) bool {
	w.t.Helper()
	out, err := w.store.Take(w.ctx, &limiter.Draw{Charges: []limiter.Charge{{Row: limiterRow(row), LimitID: limit, Hash: policy.LimitHash(limit), Numbers: n, Cost: cost}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return out.Admitted
}

// tell has a replica tell of refusals.
func (w *lockWorld) tell(replica string, entries map[string][]usage.RefusedCount) {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	now := w.clock.now().UnixMicro()
	r := &usage.RefusedReport{Replica: replica, Since: now - 1_000_000, At: now}
	for limit, subjects := range entries {
		for i := range subjects {
			subjects[i].First, subjects[i].Last = now-500_000, now
			subjects[i].Cost = max(subjects[i].Cost, 1)
			if subjects[i].Count == 0 {
				subjects[i].Count = 3
			}
		}
		r.Limits = append(r.Limits, usage.RefusedLimit{Limit: limit, Subjects: subjects})
	}
	w.feed.reports[replica] = r
}

func rateRefusal(row usage.RefusedRow) usage.RefusedCount {
	return usage.RefusedCount{Refused: usage.Refused{Row: row, Part: "rate"}}
}

// exhausted draws the buckets of one of each kind and tells of all of them.
func (w *lockWorld) exhausted() {
	w.t.Helper()
	w.draw(tenantRow(w.tenant.ID), "plan.requests", perHour(60), 60)
	w.draw(ipRow("203.0.113.77"), "route:login.per-ip", perHour(20), 20)
	w.draw(account("alice@example.com"), "route:login.per-account", perHour(5), 5)
	w.draw(usage.RefusedRow{Kind: "g"}, "route:login.everyone", perHour(100), 100)
	w.tell("gw_a", map[string][]usage.RefusedCount{
		"plan.requests": {rateRefusal(tenantRow(w.tenant.ID))}, "route:login.per-ip": {rateRefusal(ipRow("203.0.113.77"))},
		"route:login.per-account": {rateRefusal(account("alice@example.com"))}, "route:login.everyone": {rateRefusal(usage.RefusedRow{Kind: "g"})},
	})
}

func (w *lockWorld) list(actor console.Actor, q console.LockoutQuery) console.LockoutList {
	w.t.Helper()
	w.clock.add(2 * time.Second) // past what is shown again
	list, err := w.lockouts.List(w.ctx, actor, q)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// only is the one lockout by a limit.
func (w *lockWorld) only(limit string) console.Lockout {
	w.t.Helper()
	list := w.list(owner, console.LockoutQuery{Limit: limit})
	if len(list.Items) != 1 {
		w.t.Fatalf("%d lockouts by %s: %+v", len(list.Items), limit, list)
	}
	return list.Items[0]
}
