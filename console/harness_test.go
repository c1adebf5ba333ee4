package console_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// fakeFeed is Redis as the console sees it, in memory.
type fakeFeed struct {
	mu       sync.Mutex
	down     error
	policies map[int64]policy.SignedPolicy
	epoch    string // of the policy's copy
	head     policy.SignedPolicy
	place    policy.Place
	records  map[string]policy.SignedRecord
	stamps   []policy.Stamp
	beats    []policy.Heartbeat
	now      time.Time
	fills    int
	puts     int
	changed  chan struct{} // one token a change
}

var _ console.Feed = (*fakeFeed)(nil)

func newFeed() *fakeFeed {
	return &fakeFeed{policies: map[int64]policy.SignedPolicy{}, records: map[string]policy.SignedRecord{}, now: time.Unix(1_800_000_000, 0), changed: make(chan struct{}, 1000)}
}

func (f *fakeFeed) lock() func() { f.mu.Lock(); return f.mu.Unlock }

func (f *fakeFeed) ring() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *fakeFeed) PublishPolicy(_ context.Context, p policy.SignedPolicy) (string, error) {
	defer f.lock()()
	if f.down != nil {
		return "", f.down
	}
	switch {
	case p.Version < f.head.Version:
		return "went-back", nil
	case p.Version == f.head.Version && p.Digest != f.head.Digest:
		return "conflict", nil
	case p.Version == f.head.Version:
		return "same", nil
	}
	f.policies[p.Version], f.head = p, p
	if f.epoch == "" {
		f.epoch = "first"
	}
	f.ring()
	return "published", nil
}

func (f *fakeFeed) PutStamp(_ context.Context, s policy.Stamp) error {
	defer f.lock()()
	if f.down == nil {
		f.stamps = append(f.stamps, s)
		f.ring()
	}
	return f.down
}

func (f *fakeFeed) State(context.Context) (policy.FeedState, error) {
	defer f.lock()()
	return policy.FeedState{PolicyEpoch: f.epoch, Version: f.head.Version, Digest: f.head.Digest, Directory: f.place}, f.down
}

func (f *fakeFeed) PutRecords(_ context.Context, records []policy.SignedRecord) (policy.Place, error) {
	defer f.lock()()
	if f.down != nil {
		return policy.Place{}, f.down
	}
	f.puts++
	var err error
	for _, r := range records {
		if old, ok := f.records[r.ID]; ok && old.Seq >= r.Seq {
			if old.Seq > r.Seq {
				err = policy.ErrNewerRecord
			}
			continue
		}
		f.records[r.ID] = r
		f.place.Seq++
	}
	f.ring()
	return f.place, err
}

func (f *fakeFeed) BeginDirectory(context.Context) error {
	defer f.lock()()
	if f.down == nil {
		f.place, f.records = policy.Place{}, map[string]policy.SignedRecord{}
		f.fills++
	}
	return f.down
}

func (f *fakeFeed) FinishDirectory(_ context.Context, epoch string) (policy.Place, error) {
	defer f.lock()()
	if f.down == nil {
		f.place.Epoch = epoch
		f.ring()
	}
	return f.place, f.down
}

func (f *fakeFeed) Replicas(context.Context) ([]policy.Heartbeat, error) {
	defer f.lock()()
	return append([]policy.Heartbeat(nil), f.beats...), f.down
}

func (f *fakeFeed) Now(context.Context) (time.Time, error) {
	defer f.lock()()
	return f.now, f.down
}

func (f *fakeFeed) Ping(context.Context) (time.Duration, error) {
	defer f.lock()()
	f.ring()
	return 200 * time.Microsecond, f.down
}

func (f *fakeFeed) Usage(_ context.Context, after string) ([]usage.Batch, string, error) {
	defer f.lock()()
	f.ring()
	if after != "" || f.down != nil {
		return nil, after, f.down
	}
	row := usage.Row{Second: f.now.Unix(), Tenant: "ten_x", Route: "r", Outcome: usage.OutcomeAdmitted, Requests: 3, Cost: 3}
	return []usage.Batch{{Replica: "gw_1", Boot: "b", Seq: 1, Through: f.now.Unix(), Rows: []usage.Row{row}}}, "1-0", nil
}

// set changes the feed under its lock.
func (f *fakeFeed) set(fn func()) { defer f.lock()(); fn() }

// lose forgets everything, as a flush does.
func (f *fakeFeed) lose() {
	f.set(func() {
		f.policies, f.records = map[int64]policy.SignedPolicy{}, map[string]policy.SignedRecord{}
		f.head, f.epoch, f.place = policy.SignedPolicy{}, "", policy.Place{}
	})
}

// until waits for cond, which is looked at after each change of the feed.
func (f *fakeFeed) until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	for {
		f.mu.Lock()
		ok := cond()
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-f.changed:
		case <-time.After(lookEvery): // what follows a change may come after its ring
		case <-deadline:
			t.Fatalf("%s: not within 15 s", what)
		}
	}
}

// lookEvery is how often tests look at what does not ring.
const lookEvery = 5 * time.Millisecond

// asked waits for cond, which is looked at each time the feed was asked for
// something; it may ask the feed itself.
func (f *fakeFeed) asked(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !cond() {
		select {
		case <-f.changed:
		case <-time.After(lookEvery):
		case <-deadline:
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *clock) add(d time.Duration) { c.mu.Lock(); c.at = c.at.Add(d); c.mu.Unlock() }

// env is a console over a real PostgreSQL and a fake feed.
type env struct {
	ctx       context.Context
	dsn       string
	store     *db.Store
	feed      *fakeFeed
	clock     *clock
	public    ed25519.PublicKey
	deps      console.Deps
	tenants   *console.Tenants
	keys      *console.Keys
	rotations *console.Rotations
	policies  *console.Policies
	operators *console.Operators
	sessions  *console.Sessions
	audit     *console.Audit
	fleet     *console.Fleet
	jobs      *console.Jobs
}

const testDeployment = "test"

func newEnv(t testing.TB) *env {
	t.Helper()
	dsn := testkit.Postgres(t)
	store, err := db.Open(t.Context(), dsn, 12)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	e := &env{
		ctx: t.Context(), dsn: dsn, store: store, feed: newFeed(), public: public,
		clock: &clock{at: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)},
	}
	e.deps = console.Deps{Store: store, Feed: e.feed, Signer: private, Deployment: testDeployment, Now: e.clock.now}
	if err := e.deps.Check(); err != nil {
		t.Fatal(err)
	}
	e.tenants, e.keys, e.rotations, e.policies = console.NewTenants(e.deps), console.NewKeys(e.deps), console.NewRotations(e.deps), console.NewPolicies(e.deps)
	e.operators, e.sessions, e.audit = console.NewOperators(e.deps), console.NewSessions(e.deps), console.NewAudit(e.deps)
	e.fleet, e.jobs = console.NewFleet(e.deps), console.NewJobs(e.deps)
	return e
}

// as is an actor with a role.
func as(r console.Role) console.Actor {
	return console.Actor{ID: "opr_" + strings.Repeat("a", 16), Name: "Ann", Role: r, Via: console.ViaConsole, IP: "192.0.2.7", RequestID: "req-12345"}
}

var owner = as(console.RoleOwner)

func (e *env) tenant(t testing.TB, name string) console.Tenant {
	t.Helper()
	out, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: name, Plan: "free"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (e *env) issue(t *testing.T, tenantID string) console.Issued {
	t.Helper()
	out, err := e.keys.IssueCredential(e.ctx, owner, tenantID, console.NewCredential{Name: "main", Environment: "live"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (e *env) key(t *testing.T, kid string) console.KeyVersion {
	t.Helper()
	k, err := e.keys.Get(e.ctx, kid)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (e *env) events(t *testing.T) []console.AuditEvent {
	t.Helper()
	out, _, err := e.audit.List(e.ctx, console.AuditQuery{Page: console.Page{Limit: 200}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// actions are the audit trail's actions, the oldest first.
func (e *env) actions(t *testing.T) []string {
	t.Helper()
	var out []string
	events := e.events(t)
	for i := range events {
		out = append(out, events[len(events)-1-i].Action)
	}
	return out
}

// wantCode fails unless err has the code.
func wantCode(t *testing.T, err error, want console.Code) {
	t.Helper()
	_ = errorWith(t, err, want)
}

// errorWith is err as the domain's error; it fails unless err has the code.
func errorWith(t *testing.T, err error, want console.Code) *console.Error {
	t.Helper()
	if got := console.CodeOf(err); got != want {
		t.Fatalf("code %q, want %q: %v", got, want, err)
	}
	e, _ := errors.AsType[*console.Error](err)
	return e
}

// run runs a background part until the test ends.
func run(t *testing.T, part func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("part ended with %v", err)
		}
	})
}

// document is a valid policy with the plans free and pro, whose route has a
// limit with the given burst.
func document(burst string) []byte {
	return []byte(strings.ReplaceAll(`apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}]
  pro:
    limits: [{name: requests, per: tenant, counts: requests, rate: 600/minute, burst: 100}]
routes:
  - name: everything
    match: ["/"]
    identity: api_key
    motive: fairness
    limits: [{name: all, per: tenant, rate: 100/minute, burst: BURST}]
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
`, "BURST", burst))
}

func (e *env) publish(t testing.TB, burst string, base int64) console.Version {
	t.Helper()
	v, err := e.policies.Publish(e.ctx, owner, document(burst), nil, base, console.PublishOptions{Note: "note " + burst})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
