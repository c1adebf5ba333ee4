package e2e_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	domain "github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
)

// schedules is how many random fault schedules are run: 1 000 the long way.
func schedules() int {
	if n, err := strconv.Atoi(os.Getenv("HEADGATE_SCHEDULES")); err == nil {
		return n
	}
	if os.Getenv("HEADGATE_FAULTS") == "long" {
		return 1000
	}
	return 40
}

// TestConvergence_I09_IsNeverClaimedInVain runs real watchers, reporters, relays
// and fleets over one Redis and one PostgreSQL through random faults: cut and
// hung connections, lost heartbeats, restarts, disks that keep nothing, flushes,
// rewinds, forged and replayed acknowledgements, bodies that are no policy,
// canaries that are promoted and stopped. Whenever a console says that all
// enforce a version, no live replica that it knows of decides by a lower one, or
// by a document that was never committed under its number.
func TestConvergence_I09_IsNeverClaimedInVain(t *testing.T) {
	t.Parallel()
	const lanes = 4
	total := schedules()
	var claims, checks atomic.Int64
	t.Run("lanes", func(t *testing.T) {
		for lane := range lanes {
			t.Run(strconv.Itoa(lane), func(t *testing.T) {
				t.Parallel()
				l := newLane(t)
				for i := lane; i < total && !t.Failed(); i += lanes {
					l.schedule(t, uint64(i), &claims, &checks)
				}
			})
		}
	})
	t.Logf("%d schedules: convergence was asked for %d times and claimed %d times", total, checks.Load(), claims.Load())
	if claims.Load() < int64(total) {
		t.Errorf("convergence was claimed %d times in %d schedules: the test sees too little", claims.Load(), total)
	}
}

// lane is a database and a Redis that one schedule after the other uses.
type lane struct {
	store *db.Store
	redis *testkit.RedisServer
	key   ed25519.PrivateKey
	admin *redis.Client
	burst int
}

func newLane(t *testing.T) *lane {
	t.Helper()
	store, err := db.Open(t.Context(), testkit.Postgres(t), 24)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &lane{store: store, redis: testkit.Redis(t), key: key, burst: 1000}
	o, err := redis.ParseURL(l.redis.URL)
	if err != nil {
		t.Fatal(err)
	}
	l.admin = redis.NewClient(o)
	t.Cleanup(func() { _ = l.admin.Close() })
	return l
}

// run is one schedule.
type run struct {
	*lane
	t        *testing.T
	rng      *rand.Rand
	seed     uint64
	ns       string
	ctx      context.Context
	stop     context.CancelFunc
	tasks    sync.WaitGroup
	door     *testkit.FaultProxy // between the console and Redis
	deps     domain.Deps
	policies *domain.Policies
	rollouts *domain.Rollouts // whose clock is a minute ahead: any canary has held long enough
	ahead    atomic.Int64     // ns that the console takes Redis' clock to be ahead
	replicas []*node
	trail    []string // what was done, for a failure

	mu     sync.Mutex
	fleets []*domain.Fleet
	saved  []string // dumps of Redis, for a rewind
	beats  []string // heartbeats as they stood in Redis

	claims, checks *atomic.Int64
}

// shifted is a feed whose clock can be set wrong.
type shifted struct {
	*feed.Publisher
	ahead *atomic.Int64
}

func (s shifted) Now(ctx context.Context) (time.Time, error) {
	at, err := s.Publisher.Now(ctx)
	return at.Add(time.Duration(s.ahead.Load())), err
}

func (l *lane) schedule(t *testing.T, seed uint64, claims, checks *atomic.Int64) {
	t.Helper()
	r := &run{
		lane: l, t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 77)), ns: "s" + strconv.FormatUint(seed, 10),
		door: testkit.Proxy(t, l.redis.Addr), claims: claims, checks: checks,
	}
	r.ctx, r.stop = context.WithCancel(t.Context())
	if err := l.admin.FlushAll(r.ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if err := l.store.InTx(r.ctx, func(tx domain.Tx) error { return tx.DeleteOldBeats(r.ctx, 0) }); err != nil {
		t.Fatal(err)
	}
	r.startConsole()
	for i := range 3 + r.rng.IntN(3) {
		r.replicas = append(r.replicas, r.newNode(i))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.watchClaims()
	}()
	for range 14 {
		r.step()
		<-time.After(time.Duration(r.rng.IntN(45)) * time.Millisecond) // faults come at any time
	}
	r.heal()
	r.stop()
	<-done
	for _, n := range r.replicas {
		n.kill()
	}
	r.tasks.Wait()
	if t.Failed() {
		t.Logf("schedule %d: %s", seed, strings.Join(r.trail, " · "))
	}
}

// startConsole makes the services over the faulty way to Redis.
func (r *run) startConsole() {
	r.deps = domain.Deps{
		Store: r.store, Feed: shifted{r.publisher(), &r.ahead}, Signer: r.key, Deployment: "faults",
	}
	relay := domain.NewRelay(r.deps, r.store)
	r.deps.Nudge = relay.Nudge
	r.policies = domain.NewPolicies(r.deps)
	first := r.fleet()
	r.fleet()
	later := r.deps
	later.Now = func() time.Time { return time.Now().Add(time.Minute) }
	r.rollouts = domain.NewRollouts(later, first)
	r.tasks.Go(func() { _ = relay.Run(r.ctx) })
	if _, ok, err := r.policies.Head(r.ctx); err != nil {
		r.t.Fatal(err)
	} else if !ok {
		r.publish(domain.PublishOptions{})
	}
}

// fleet is one more console that looks on.
func (r *run) fleet() *domain.Fleet {
	f := domain.NewFleet(r.deps)
	r.tasks.Go(func() { _ = f.Run(r.ctx) })
	r.mu.Lock()
	r.fleets = append(r.fleets, f)
	r.mu.Unlock()
	return f
}

func (r *run) publisher() *feed.Publisher {
	p, err := feed.NewPublisher(feed.Config{Client: r.client(r.door), Namespace: r.ns, Deployment: "faults"})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *run) client(door *testkit.FaultProxy) *redis.Client {
	o, err := feed.Options(door.URL)
	if err != nil {
		r.t.Fatal(err)
	}
	o.MinIdleConns = 0
	c := redis.NewClient(o)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// publish makes the next version; a refusal (a canary runs) is none of this test's business.
func (r *run) publish(o domain.PublishOptions) {
	r.burst = 1000 + (r.burst+1)%100
	head, _, err := r.policies.Head(r.ctx)
	if err == nil {
		_, err = r.policies.Publish(r.ctx, domain.SystemActor(), faultPolicy(r.burst), nil, head.Number, o)
	}
	if code := domain.CodeOf(err); err != nil && code != domain.CodeConflict && code != domain.CodeInvalid && code != domain.CodeUnavailable {
		r.t.Errorf("publish: %v", err)
	}
}

func faultPolicy(burst int) []byte {
	return fmt.Appendf(nil, `apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, rate: 1000/minute, burst: %d}]
routes:
  - name: all
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 10/minute, burst: 10}}
`, burst)
}

// heal ends all faults and waits until everything is as it should be.
func (r *run) heal() {
	r.ahead.Store(0)
	r.door.Pass()
	for _, n := range r.replicas {
		n.door.Pass()
		n.mute.Store(false)
		n.findDisk()
	}
	r.endCanary(r.rollouts.Stop)
	r.publish(domain.PublishOptions{})
	head, _, err := r.policies.Head(r.ctx)
	if err != nil {
		r.t.Errorf("after the faults: %v", err)
		return
	}
	r.mu.Lock()
	fleet := r.fleets[0]
	r.mu.Unlock()
	deadline := time.Now().Add(40 * time.Second)
	for {
		c := fleet.WaitVersion(r.ctx, head.Number, 5*time.Second)
		if c.Done() && c.Of == len(r.replicas) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Errorf("schedule %d: after the faults v%d is on %d of %d (%d replicas), NACKs %+v", r.seed, head.Number, c.On, c.Of, len(r.replicas), c.Nacks)
			return
		}
	}
}

// watchClaims asks the consoles all the time what they say.
func (r *run) watchClaims() {
	for i := 0; r.ctx.Err() == nil; i++ {
		r.mu.Lock()
		fleet := r.fleets[i%len(r.fleets)]
		r.mu.Unlock()
		if i%5 == 4 {
			fleet = domain.NewFleet(r.deps) // has only just started
		}
		r.checkClaim(fleet)
	}
}

func (r *run) checkClaim(fleet *domain.Fleet) {
	known := map[string]bool{}
	for _, replica := range fleet.Health(r.ctx).Replicas {
		known[replica.ID] = true
	}
	head, _, err := r.policies.Head(r.ctx)
	if err != nil {
		return
	}
	asked := []int64{head.Number}
	if cur, err := r.rollouts.Current(r.ctx); err == nil && cur != nil {
		asked = append(asked, cur.Version)
	}
	for _, version := range asked {
		p, err := fleet.Publication(r.ctx, version)
		r.checks.Add(1)
		if err != nil || !p.Done() {
			continue
		}
		r.claims.Add(1)
		for _, n := range r.replicas {
			if known[n.id] && (!p.Canary || contains(p.Targets, n.id)) {
				r.checkReplica(n, p)
			}
		}
	}
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

// checkReplica holds a claim against what a replica decides by.
func (r *run) checkReplica(n *node, p domain.Publication) {
	w := n.watcher.Load()
	if w == nil {
		return // it does not run
	}
	cur := w.Current()
	if cur == nil || cur.Version < p.Version {
		r.t.Errorf("schedule %d: a console says that %d of %d enforce v%d (canary %v); %s decides by %+v, row %+v",
			r.seed, p.On, p.Of, p.Version, p.Canary, n.id, w.Status(), rowOf(p, n.id))
		return
	}
	var digests map[int64]string
	err := r.store.Read(r.ctx, func(tx domain.Tx) (err error) {
		digests, err = tx.VersionDigests(r.ctx, []int64{cur.Version})
		return err
	})
	if err == nil && digests[cur.Version] != policy.DigestOf(cur.Body) {
		r.t.Errorf("schedule %d: %s decides by v%d with %s, which was committed with %s", r.seed, n.id, cur.Version, cur.Digest, digests[cur.Version])
	}
}

func rowOf(p domain.Publication, id string) any {
	for _, row := range p.Rows {
		if row.ID == id {
			return row
		}
	}
	return "none"
}
