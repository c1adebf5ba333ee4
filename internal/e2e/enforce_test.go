package e2e_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	domain "github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy/feed"
)

// gatewayPoll is how often a gateway polls by default.
const gatewayPoll = 800 * time.Millisecond

// TestEnforced_T10_ByTwelveReplicas measures from the moment that a version was
// committed at to the moment that the last of twelve replicas enforced it, each
// by its own word: with the bell, and for replicas that may not listen to it.
func TestEnforced_T10_ByTwelveReplicas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bell   bool
		rounds int
		bar    time.Duration
	}{
		"bell": {true, 10, 250 * time.Millisecond},
		"poll": {false, 3, gatewayPoll * 3 / 2},
	} {
		if strict() {
			c.rounds = 100
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			measured := enforcedBy(t, newLane(t), 12, c.rounds, c.bell)
			slices.Sort(measured)
			at := func(share float64) time.Duration {
				return measured[min(int(share*float64(len(measured))), len(measured)-1)]
			}
			t.Logf("publish to enforced by 12 of 12 (%s), %d times: p50 %v, p90 %v, p99 %v, most %v", name, len(measured),
				at(0.5).Round(time.Millisecond), at(0.9).Round(time.Millisecond), at(0.99).Round(time.Millisecond), at(1).Round(time.Millisecond))
			took(t, "p99 of publish to enforced ("+name+")", at(0.99), c.bar)
		})
	}
}

// enforcedBy publishes a number of times and returns how long each took to be on
// all replicas.
func enforcedBy(t *testing.T, l *lane, replicas, rounds int, bell bool) []time.Duration {
	t.Helper()
	publisher, err := feed.NewPublisher(feed.Config{Client: l.admin, Deployment: "faults"})
	if err != nil {
		t.Fatal(err)
	}
	deps := domain.Deps{Store: l.store, Feed: publisher, Signer: l.key, Deployment: "faults"}
	relay := domain.NewRelay(deps, l.store)
	deps.Nudge = relay.Nudge
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, replicas+1)
	go func() { done <- relay.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		for range replicas + 1 {
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("a part ended with %v", err)
			}
		}
	})
	changed := make(chan struct{}, replicas)
	watchers := make([]*feed.Watcher, replicas)
	for i := range watchers {
		watchers[i] = listener(t, l, bell, changed)
		go func() { done <- watchers[i].Run(ctx) }()
	}
	policies := domain.NewPolicies(deps)
	var out []time.Duration
	for n := range int64(rounds + 1) {
		v, err := policies.Publish(t.Context(), domain.SystemActor(), faultPolicy(2000+int(n)%200), nil, n, domain.PublishOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last := untilAll(t, watchers, v.Number, changed)
		if n > 0 { // the first one finds replicas that have nothing, and ask oftener
			out = append(out, last.Sub(v.CreatedAt))
		}
		// Publications come at any time of a poll's period, and not as a storm, of
		// which replicas read three versions and then one each 0.6 s.
		<-time.After(time.Duration(600+rand.IntN(200)) * time.Millisecond)
	}
	return out
}

// listenerClient is a replica's connection to Redis; without the bell its user
// may hear nothing.
func listenerClient(t *testing.T, l *lane, bell bool) *redis.Client {
	t.Helper()
	address := l.redis.URL
	if !bell {
		deaf := []any{"ACL", "SETUSER", "deaf", "on", ">secret", "~*", "resetchannels", "+@all"}
		if err := l.admin.Do(t.Context(), deaf...).Err(); err != nil {
			t.Fatal(err)
		}
		address = strings.Replace(address, "redis://", "redis://deaf:secret@", 1)
	}
	o, err := feed.Options(address)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// listener is a replica's watcher.
func listener(t *testing.T, l *lane, bell bool, changed chan<- struct{}) *feed.Watcher {
	t.Helper()
	client := listenerClient(t, l, bell)
	w, err := feed.NewWatcher(feed.WatcherConfig{
		Config:     feed.Config{Client: client, Deployment: "faults"},
		PublicKeys: []ed25519.PublicKey{l.key.Public().(ed25519.PublicKey)}, StateDir: t.TempDir(), Poll: gatewayPoll,
		OnChange: func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// untilAll waits until all enforce a version and returns when the last one did.
func untilAll(t *testing.T, watchers []*feed.Watcher, version int64, changed <-chan struct{}) (last time.Time) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		on := 0
		for _, w := range watchers {
			if c := w.Current(); c != nil && c.Version >= version {
				on++
				if c.Since.After(last) {
					last = c.Since
				}
			}
		}
		if on == len(watchers) {
			return last
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatalf("v%d is on %d of %d after a minute", version, on, len(watchers))
		}
	}
}
