package e2e_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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
		lane: l, t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 77)), ns: "s" + strconv.FormatUint(seed, 10), //nolint:gosec // repeatable, guards nothing
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
		time.Sleep(time.Duration(r.rng.IntN(45)) * time.Millisecond) // faults come at any time
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

// step does one thing that happens in operation, or to it.
func (r *run) step() {
	n := r.replicas[r.rng.IntN(len(r.replicas))]
	acts := []struct {
		name   string
		weight int
		do     func()
	}{
		{"publish", 5, func() { r.publish(domain.PublishOptions{}) }},
		{"canary", 3, func() {
			r.publish(domain.PublishOptions{Canary: &domain.CanaryPlan{Count: 1 + r.rng.IntN(2), Hold: domain.MinHold}})
		}},
		{"promote", 2, func() { r.endCanary(r.rollouts.Promote) }},
		{"stop", 2, func() { r.endCanary(r.rollouts.Stop) }},
		{"cut " + n.id, 2, n.door.Cut},
		{"hole " + n.id, 1, n.door.Hole},
		{"delay " + n.id, 1, func() { n.door.Delay(time.Duration(r.rng.IntN(80)) * time.Millisecond) }},
		{"drop reply " + n.id, 1, n.door.DropReply},
		{"pass " + n.id, 3, n.door.Pass},
		{"cut console", 1, r.door.Cut},
		{"pass console", 2, r.door.Pass},
		{"sever console", 1, r.door.Sever},
		{"mute " + n.id, 2, func() { n.mute.Store(true) }},
		{"unmute " + n.id, 2, func() { n.mute.Store(false) }},
		{"restart " + n.id, 3, func() { n.kill(); n.start() }},
		{"disk away " + n.id, 2, n.loseDisk},
		{"disk back " + n.id, 2, n.findDisk},
		{"flush", 1, func() { r.admin.FlushAll(r.ctx) }},
		{"save", 2, r.save},
		{"rewind", 2, r.rewind},
		{"forge " + n.id, 2, func() { r.forge(n.id) }},
		{"replay " + n.id, 1, func() { r.replay(n.id) }},
		{"garble", 1, r.garble},
		{"kill pubsub", 1, func() { r.admin.Do(r.ctx, "CLIENT", "KILL", "TYPE", "pubsub") }},
		{"console starts", 1, func() { r.fleet() }},
		{"clock", 1, func() { r.ahead.Store(int64(r.rng.IntN(3)) * int64(4*time.Second)) }},
	}
	total := 0
	for _, a := range acts {
		total += a.weight
	}
	pick := r.rng.IntN(total)
	for _, a := range acts {
		if pick -= a.weight; pick < 0 {
			r.trail = append(r.trail, a.name)
			a.do()
			return
		}
	}
}

func (r *run) endCanary(end func(context.Context, domain.Actor, int64, string) (domain.Version, error)) {
	cur, err := r.rollouts.Current(r.ctx)
	if err != nil || cur == nil {
		return
	}
	_, err = end(r.ctx, domain.SystemActor(), cur.Version, "the schedule says so")
	if code := domain.CodeOf(err); err != nil && code != domain.CodeConflict && code != domain.CodeUnavailable {
		r.t.Errorf("end canary %d: %v", cur.Version, err)
	}
}

// save keeps what stands in Redis now, for a rewind.
func (r *run) save() {
	keys, err := r.admin.Keys(r.ctx, r.ns+":*").Result()
	if err != nil {
		return
	}
	r.saved = r.saved[:0]
	for _, k := range keys {
		if raw, err := r.admin.Dump(r.ctx, k).Result(); err == nil {
			r.saved = append(r.saved, k, raw)
		}
		if strings.HasPrefix(k, r.ns+":replica:gw_") {
			if raw, err := r.admin.Get(r.ctx, k).Result(); err == nil {
				r.beats = append(r.beats, k, raw)
			}
		}
	}
}

// rewind puts Redis back to what it was, as a failover to an old copy does.
func (r *run) rewind() {
	r.admin.FlushAll(r.ctx)
	for i := 0; i+1 < len(r.saved); i += 2 {
		r.admin.Do(r.ctx, "RESTORE", r.saved[i], 0, r.saved[i+1], "REPLACE")
	}
}

// forge acknowledges in a replica's name what it may not enforce, with a digest
// that is not the version's: whoever writes it does not know the document.
func (r *run) forge(id string) {
	head, _, err := r.policies.Head(r.ctx)
	if err != nil {
		return
	}
	version := head.Number + int64(r.rng.IntN(2))*1000
	beat := fmt.Sprintf(`{"id":%q,"boot":"forged","version":%d,"digest":"sha256:%064d"}`, id, version, 0)
	r.admin.Set(r.ctx, r.ns+":replica:"+id, beat, time.Hour)
	r.admin.ZAdd(r.ctx, r.ns+":replica:index", redis.Z{Score: float64(time.Now().UnixMilli()), Member: id})
}

// replay writes an old heartbeat of a replica again.
func (r *run) replay(id string) {
	for i := 0; i+1 < len(r.beats); i += 2 {
		if r.beats[i] == r.ns+":replica:"+id {
			r.admin.Set(r.ctx, r.beats[i], r.beats[i+1], time.Hour)
			return
		}
	}
}

// garble makes the newest body one that no replica can use.
func (r *run) garble() {
	if head, _, err := r.policies.Head(r.ctx); err == nil {
		r.admin.Set(r.ctx, fmt.Sprintf("%s:{policy}:body:%d", r.ns, head.Number), "{}", 0)
	}
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

// node is a replica: what of a gateway follows and reports.
type node struct {
	run     *run
	id      string
	dir     string
	door    *testkit.FaultProxy
	mute    atomic.Bool
	watcher atomic.Pointer[feed.Watcher] // nil while it does not run
	stop    func()
	boots   int
	high    int64 // highest version that it ever said to have saved
}

func (r *run) newNode(i int) *node {
	n := &node{run: r, id: fmt.Sprintf("gw_%d_%d", r.seed, i), dir: filepath.Join(r.t.TempDir(), "state"), door: testkit.Proxy(r.t, r.redis.Addr)}
	if err := os.Mkdir(n.dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	n.start()
	return n
}

// loseDisk makes everything fail that the replica writes; what is there stays.
func (n *node) loseDisk() { _ = os.Rename(n.dir, n.dir+".away") }

func (n *node) findDisk() { _ = os.Rename(n.dir+".away", n.dir) }

// start is a boot: what lies on the disk, if that is there again, then Redis.
func (n *node) start() {
	n.findDisk()
	n.boots++
	client := n.run.client(n.door)
	cfg := feed.Config{Client: client, Namespace: n.run.ns, Deployment: "faults"}
	changes := make(chan struct{}, 1)
	w, err := feed.NewWatcher(feed.WatcherConfig{
		Config: cfg, PublicKeys: []ed25519.PublicKey{n.run.key.Public().(ed25519.PublicKey)}, StateDir: n.dir, Replica: n.id, Poll: 25 * time.Millisecond,
		OnChange: func() {
			select {
			case changes <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		n.run.t.Fatal(err)
	}
	reporter, err := feed.NewReporter(cfg)
	if err != nil {
		n.run.t.Fatal(err)
	}
	if v := w.Status().Version; v < n.high {
		n.run.t.Errorf("schedule %d: %s starts with v%d; it had said to have saved v%d", n.run.seed, n.id, v, n.high)
	}
	ctx, cancel := context.WithCancel(n.run.ctx)
	var parts sync.WaitGroup
	parts.Go(func() { _ = w.Run(ctx) })
	parts.Go(func() { n.report(ctx, w, reporter, changes) })
	n.watcher.Store(w)
	n.stop = func() {
		cancel()
		parts.Wait()
		_ = client.Close()
	}
}

// kill ends it without a word to anyone.
func (n *node) kill() {
	n.watcher.Store(nil)
	n.stop()
}

// report sends heartbeats as a gateway does, and oftener.
func (n *node) report(ctx context.Context, w *feed.Watcher, reporter *feed.Reporter, changes <-chan struct{}) {
	tick := time.NewTicker(60 * time.Millisecond)
	defer tick.Stop()
	for {
		s := w.Status()
		if !s.Unsaved {
			n.high = max(n.high, s.Version)
		}
		if !n.mute.Load() {
			beat, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			_, _, _ = reporter.Beat(beat, policy.Heartbeat{
				ID: n.id, Boot: strconv.Itoa(n.boots), Version: s.Version, Digest: s.Digest, Since: s.Since, NACK: s.NACK, Unsaved: s.Unsaved, Mode: policy.ModeNormal,
			})
			cancel()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changes:
		}
	}
}
