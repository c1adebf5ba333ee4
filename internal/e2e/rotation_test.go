package e2e_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	control "github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
)

// clientFleet is clients of one credential that call all the time, each under a
// name of its own.
type clientFleet struct {
	d       *Demo
	keys    [20]atomic.Pointer[string]
	refused sync.Map // client → status
	calls   atomic.Int64
}

func clientName(i int) string { return fmt.Sprintf("client-%c", 'a'+i) }

func (f *clientFleet) run(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		for i := range f.keys {
			status := f.d.hitAs((n+i)%len(f.d.Gateways), *f.keys[i].Load(), clientName(i)+"/1.0") //nolint:contextcheck // a request has a time limit of its own
			if f.calls.Add(1); status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusServiceUnavailable {
				f.refused.Store(clientName(i), status)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// rotator is the console's rotations in this process, over the demo's database,
// which answer with the evidence that pages show.
func (d *Demo) rotator(minQuiet time.Duration) *control.Rotations {
	d.t.Helper()
	uses, _ := d.keyUses()
	store, err := db.Open(d.t.Context(), d.Postgres, 4)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(store.Close)
	wire, err := feed.NewPublisher(feed.Config{Client: d.RedisClient(), Deployment: "demo"})
	if err != nil {
		d.t.Fatal(err)
	}
	return control.NewRotations(control.Deps{
		Store: store, Feed: wire, Signer: make(ed25519.PrivateKey, ed25519.PrivateKeySize), Deployment: "demo", KeyUse: uses, MinQuiet: minQuiet,
	})
}

// use gives the clients from the first-th to before the last-th this key.
func (f *clientFleet) use(key string, first, last int) {
	for i := first; i < last; i++ {
		f.keys[i].Store(&key)
	}
}

// begin lets the clients call until the function that it returns has been called.
func (f *clientFleet) begin(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { f.run(ctx) })
	return func() { stop(); running.Wait() }
}

// stragglers is the names of those that still use the old key, in order.
func stragglers(ev control.Evidence) string {
	var names []string
	for _, s := range ev.Stragglers() {
		names = append(names, s.Agent)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestRotation_I19_TwentyClientsOfWhichThreeNeverSwitch: nobody is refused, exactly
// the three are named, and it is not ready before they have switched and been
// silent for long enough.
func TestRotation_I19_TwentyClientsOfWhichThreeNeverSwitch(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	rotations := d.rotator(5 * time.Second)
	tenant, credential := d.NewTenant("Fleet", "pro")
	eventually(t, 20*time.Second, "the key is accepted everywhere", func() error {
		for i := range d.Gateways {
			if status := d.hitAs(i, tenant.Key, "first/1"); status != http.StatusOK {
				return fmt.Errorf("gateway %d: %d", i+1, status)
			}
		}
		return nil
	})
	f := &clientFleet{d: d}
	f.use(tenant.Key, 0, len(f.keys))
	end := f.begin(t.Context())
	defer end()

	const overlap = 2 * time.Minute // a quarter of it is the silence that is asked for
	started := d.MustAPI(http.StatusCreated, http.MethodPost, "/api/v1/credentials/"+credential+"/rotations", map[string]any{"overlap": overlap.String(), "reason": "test"})
	id, fresh := str(started, "rotation", "id"), str(started, "key")
	f.use(fresh, 3, len(f.keys))
	evidence := func() control.Evidence {
		ev, err := rotations.Evidence(t.Context(), control.SystemActor(), id)
		if err != nil {
			t.Fatal(err)
		}
		return ev
	}
	eventually(t, time.Minute, "exactly the three that stay are named", func() error {
		ev := evidence()
		if got := stragglers(ev); got != "client-a/1 client-b/1 client-c/1" || ev.Ready || len(ev.Sources) < 20 {
			return fmt.Errorf("named are %q of %d sources; ready %v, %s", got, len(ev.Sources), ev.Ready, ev.WhyNot)
		}
		return nil
	})
	f.use(fresh, 0, 3)
	switched := time.Now()
	eventually(t, overlap-10*time.Second, "it is ready", func() error {
		if ev := evidence(); !ev.Ready {
			return fmt.Errorf("%s (needed %s)", ev.WhyNot, ev.Needed)
		} else if time.Since(switched) < ev.Needed-3*time.Second {
			t.Errorf("ready %s after the last switch, and %s are asked for", time.Since(switched), ev.Needed)
		}
		return nil
	})
	took(t, "ready after the last client has switched", time.Since(switched), overlap/4+15*time.Second)
	end()
	f.refused.Range(func(client, status any) bool {
		t.Errorf("%v was refused with %v", client, status)
		return true
	})
	t.Logf("%d calls of %d clients", f.calls.Load(), len(f.keys))
}

// TestRevoked_T11_I10_ByTwelveReplicasUnderLoad measures from the moment that a
// revocation was committed at to the moment that the last of twelve replicas,
// which look the key up all the time, refuses it: with the bell, and for
// replicas that may not listen to it. No replica accepts it again.
func TestRevoked_T11_I10_ByTwelveReplicasUnderLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bell    bool
		rounds  int
		bar, at time.Duration // of the 99th percentile, and of the worst
	}{
		"bell": {true, 10, 250 * time.Millisecond, time.Second},
		"poll": {false, 3, gatewayPoll * 3 / 2, 2 * gatewayPoll},
	} {
		if strict() {
			c.rounds = 50
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			measured := revokedBy(t, newLane(t), 12, c.rounds, c.bell)
			slices.Sort(measured)
			p99 := measured[min(len(measured)*99/100, len(measured)-1)]
			t.Logf("revoke to refused by 12 of 12 (%s), %d times: p50 %v, p99 %v, most %v", name, len(measured),
				measured[len(measured)/2].Round(time.Millisecond), p99.Round(time.Millisecond), measured[len(measured)-1].Round(time.Millisecond))
			took(t, "p99 of revoke to refused ("+name+")", p99, c.bar)
			took(t, "most of revoke to refused ("+name+")", measured[len(measured)-1], c.at)
		})
	}
}

func revokedBy(t *testing.T, l *lane, replicas, rounds int, bell bool) (out []time.Duration) {
	t.Helper()
	publisher, err := feed.NewPublisher(feed.Config{Client: l.admin, Deployment: "faults"})
	if err != nil {
		t.Fatal(err)
	}
	deps := control.Deps{Store: l.store, Feed: publisher, Signer: l.key, Deployment: "faults"}
	relay := control.NewRelay(deps, l.store)
	deps.Nudge = relay.Nudge
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	running.Go(func() { _ = relay.Run(ctx) })
	directories := make([]*feed.Directory, replicas)
	for i := range directories {
		directories[i] = directory(t, l, bell)
		running.Go(func() { _ = directories[i].Run(ctx) })
	}
	actor := control.SystemActor()
	tenants, keys := control.NewTenants(deps), control.NewKeys(deps)
	ten, err := tenants.Create(t.Context(), actor, control.NewTenant{Name: "T", Plan: "free"})
	if err != nil {
		t.Fatal(err)
	}
	for range rounds {
		issued, err := keys.IssueCredential(t.Context(), actor, ten.ID, control.NewCredential{Name: "n", Environment: "live"})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, revokeOnce(t, directories, keys, issued.KeyVersion.KID))
	}
	return out
}

// revokeOnce revokes a key that all replicas accept, and returns how long it took
// until the last of them refused it.
func revokeOnce(t *testing.T, directories []*feed.Directory, keys *control.Keys, kid string) time.Duration {
	t.Helper()
	state := func(d *feed.Directory) policy.KeyState {
		rec, err := d.Key(t.Context(), kid)
		if err != nil {
			return ""
		}
		return rec.State
	}
	eventually(t, 20*time.Second, "the key is accepted on all", func() error {
		for i, d := range directories {
			if s := state(d); s != policy.KeyActive {
				return fmt.Errorf("replica %d: %q", i+1, s)
			}
		}
		return nil
	})
	refused := make(chan time.Time, len(directories))
	var looking sync.WaitGroup
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	for i, d := range directories {
		looking.Go(func() {
			var first time.Time
			for ctx.Err() == nil {
				switch s := state(d); {
				case s == policy.KeyRevoked && first.IsZero():
					first = time.Now()
					refused <- first
				case s == policy.KeyActive && !first.IsZero():
					t.Errorf("replica %d accepts a key that it has refused", i+1)
					return
				}
				if !first.IsZero() && time.Since(first) > 100*time.Millisecond {
					return
				}
				<-time.After(2 * time.Millisecond) // load: 12 × 500 lookups a second
			}
		})
	}
	if _, err := keys.Revoke(t.Context(), control.SystemActor(), kid, "leak"); err != nil {
		t.Fatal(err)
	}
	committed := time.Now()
	var last time.Time
	for range directories {
		select {
		case at := <-refused:
			if at.After(last) {
				last = at
			}
		case <-ctx.Done():
			t.Fatal("not refused on all within 30 s")
		}
	}
	looking.Wait()
	return max(0, last.Sub(committed))
}

// directory is a replica's directory; without the bell its user may hear nothing.
func directory(t *testing.T, l *lane, bell bool) *feed.Directory {
	t.Helper()
	client := listenerClient(t, l, bell)
	d, err := feed.NewDirectory(feed.DirectoryConfig{
		Config: feed.Config{Client: client, Deployment: "faults"}, PublicKeys: []ed25519.PublicKey{l.key.Public().(ed25519.PublicKey)},
		Poll: gatewayPoll, Timeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
